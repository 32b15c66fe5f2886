"""Clues for the rules of `why`: a process that failed. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.states.evidence import Evidence, Log
from xsft.states.failing import PATHWAYS_HEAD, failed_in_place, first_failure, place
from xsft.states.pods import current
from xsft.states.rule import Clue


def said(evidence: Evidence) -> Iterator[Clue]:
    """Yield the `kind` of the process that failed first; if none is known, of all logs, lost peers last.

    A stalled run has no failure while no process has ended: errors in its logs may be old.
    """
    failure = first_failure(evidence)
    if failure is None and evidence.status.state == "stalled":
        return
    logs = [failure.log] if failure and failure.log else sorted(evidence.logs or (), key=_log_rank)
    for log in logs:
        if log.said is not None:
            yield Clue(text=log.said.kind, where=place(log), quoted=(log.said.line,), values={"text": log.said.text})


def _log_rank(log: Log) -> tuple[bool, int, int, int]:
    echo = log.said is not None and log.said.lost_peer
    return (echo, -log.attempt, log.slice_index, log.host)


def ended(evidence: Evidence) -> Iterator[Clue]:
    """Yield `head|worker|job REASON exit CODE`, with the termination message as evidence. `job`: has a memory
    limit."""
    failure = first_failure(evidence)
    if failure is None:
        return
    work = evidence.seen.jobset.work if evidence.seen.jobset else None
    memory = failure.container.memory
    who = "job" if work and memory else "head" if failure.pod.replicated_job == PATHWAYS_HEAD else "worker"
    code = failure.container.exit_code
    last = (*failure.container.message.strip().splitlines()[-3:], *(failure.log.lines[-3:] if failure.log else ()))
    yield Clue(
        text=f"{who} {failure.container.reason or 'Error'} exit {'unknown' if code is None else code}",
        where=place(failure.pod),
        quoted=tuple(dict.fromkeys(last)),  # the message may be the log's end
        values={"work": work or "", "memory": memory},
    )


def ended_in_place(evidence: Evidence) -> Iterator[Clue]:
    """Yield `REASON exit CODE` of failed containers that their pods started again: out-of-memory first, then the
    latest."""
    found = [
        (pod, one) for pod in current(evidence.seen) for one in pod.containers if one.last and failed_in_place(one)
    ]
    latest_first = sorted(found, key=lambda pair: pair[1].last.finished_at or "" if pair[1].last else "", reverse=True)
    for pod, one in sorted(latest_first, key=lambda pair: pair[1].last is None or pair[1].last.reason != "OOMKilled"):
        if one.last is not None:
            code = "unknown" if one.last.exit_code is None else one.last.exit_code
            yield Clue(
                text=f"{one.last.reason or 'Error'} exit {code}",
                where=place(pod),
                quoted=tuple(one.last.message.strip().splitlines()[-3:]),
                values={"count": str(one.restarts), "pods": str(len({pod.name for pod, _ in found}))},
            )


def jobset(evidence: Evidence) -> Iterator[Clue]:
    """Yield `type reason: message` of each condition that is True."""
    held = evidence.seen.jobset
    for condition in held.conditions if held else ():
        if condition.status == "True":
            text = f"{condition.type} {condition.reason}: {condition.message}"
            yield Clue(text=text, where=f"JobSet {held.name}" if held else "")

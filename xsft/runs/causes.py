"""Explain a run's state: the cause first, then other observations. Pure and total: a run without a problem also has a
cause."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from xsft.base.amounts import earliest, seconds_between, with_z
from xsft.base.names import list_names
from xsft.base.state_names import ENDED, State
from xsft.cluster.evidence import Evidence, Neighbour
from xsft.cluster.observation import Status
from xsft.cluster.pod_fields import Container
from xsft.runs import clues
from xsft.runs.cause_rule import BY_SLUG, Cause, Clue, Explanation, Rule, causes
from xsft.runs.clues import restart_words
from xsft.runs.pod_reasons import current, first_failure, place

CLUES: Mapping[str, Callable[[Evidence], Iterable[Clue]]] = {
    "behind": clues.behind,
    "cluster-queue": clues.cluster_queue,
    "eviction": clues.eviction,
    "kueue": clues.kueue,
    "missing": clues.missing,
    "refused": clues.refused,
    "deadline": clues.deadline,
    "disrupted": clues.disrupted,
    "earlier": clues.earlier,
    "events": clues.events,
    "unplaced": clues.unplaced,
    "waiting": clues.waiting,
    "ended": clues.ended,
    "ended-in-place": clues.ended_in_place,
    "jobset": clues.jobset,
    "said": clues.said,
    "restart": clues.restart,
    "server": clues.server,
    "meaning": clues.meaning,
    "reason": clues.reason,
    "readmitted": clues.readmitted,
    "recorded": clues.recorded,
    "silence": clues.silence,
    "unread": clues.unread,
    "worth": clues.worth,
    "zero-loss": clues.zero_loss,
}
"""Name of a kind of clue -> function that yields its clues."""


msgspec.json.Decoder(Rule)  # at import: msgspec@0.22.0 crashes if two threads do this for one type


@cache
def rule_table() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "rules.toml").read_text(encoding="utf-8"))


@cache
def groups() -> tuple[tuple[Rule, ...], ...]:
    """Return the groups of rules in the file's order."""
    rules, named = rule_table()["rule"], rule_table()["group"]
    return tuple(
        tuple(msgspec.convert({**group, **rule}, Rule) for rule in rules if rule["group"] == name)
        for name, group in named.items()
    )


@cache
def log_rules() -> tuple[Rule, ...]:
    """Return the rules whose causes are found in a log, in the file's order: the likelier first."""
    return tuple(rule for group in groups() for rule in group if rule.log)


def needs_clue(kind: str, status: Status) -> bool:
    """Return whether a rule may explain the status by clues of this kind, a key of CLUES."""
    return any(rule.applies(status) for group in groups() for rule in group if rule.clues == kind)


_BASES = ("direct", "inferred", "state")
"""The order of the groups. If two causes match, the one that the cluster or the trainer names comes first."""


def explain_state(evidence: Evidence) -> Explanation:
    """Return the cause and the other observations."""
    *matches, (_, last) = _find_causes(evidence, names=words(evidence))  # the last group matches every run
    first, *others = _in_order(matches, last, evidence.status.state)
    if looped := _crash_loop(first, evidence):
        first, others = looped, [first, *others]
    return Explanation(
        state=evidence.status.state,
        reason=evidence.status.reason,
        cause=first,
        others=tuple(cause for cause in others if cause.id != first.id),
    )


def found_of(evidence: Evidence, cause: Cause) -> str:
    """Return the id of a failure that only pods show, else empty; it is stored, because the next restart deletes the
    pods."""
    failure, jobset = first_failure(evidence), evidence.seen.jobset
    if failure is None or jobset is None or cause.where != place(failure.pod) or failure.pod.attempt < jobset.restarts:
        return ""
    return f"{cause.message} [{cause.where}, seen at {with_z(evidence.seen.observed_at)}]"


def _in_order(matches: Sequence[tuple[Rule, Cause]], last: Cause, state: State) -> Iterator[Cause]:
    """The cause of a restart explains a run that is starting; for a running run it is history."""
    past = [cause for rule, cause in matches if state in rule.history]
    now = [cause for rule, cause in matches if state not in rule.history]
    now.sort(key=lambda one: _BASES.index(one.basis))
    if state == "starting":
        yield from (*now, *past) or (last,)
    else:
        yield from (*(now or (last,)), *past)


def _find_causes(evidence: Evidence, *, names: Mapping[str, str]) -> Iterator[tuple[Rule, Cause]]:
    """Yield the causes with their rules: the likelier group first, and of each group the first rule that matches,
    direct before inferred."""
    status = evidence.status
    anew = replace(status, reason="restarted") if _begins_anew(evidence) else status
    before = False
    # all groups but the first and the last are about JobSets
    serves = evidence.seen.jobset is not None and evidence.seen.jobset.serves
    for group in (groups()[0], groups()[-1]) if serves else groups():
        direct_first = sorted(group, key=lambda rule: _BASES.index(rule.basis))
        applying = (rule for rule in direct_first if rule.applies(status) or rule.applies(anew))
        match = next(
            ((rule, cause) for rule in applying for cause in causes(rule, CLUES[rule.clues](evidence), words=names)),
            None,
        )
        if match is None or (before and "starting" in match[0].history):
            continue
        rule, cause = match
        restart_cause = _of_before(cause, evidence, names)
        before = before or restart_cause is not cause
        yield rule, restart_cause


def _begins_anew(evidence: Evidence) -> bool:
    """Return whether the run was restarted or is about to be: JobSet waits until the pods of the failed Job are gone,
    or a failed container will be started again by its pod, as Pathways' workers are."""
    jobset = evidence.seen.jobset
    ended = any(pod.status.phase == "Failed" or any(map(_is_down, pod.containers)) for pod in current(evidence.seen))
    return evidence.status.state == "starting" and jobset is not None and (jobset.restarts > 0 or ended)


def _is_down(container: Container) -> bool:
    """Return whether the container failed, and its pod will restart it."""
    before = container.last_state.terminated
    return not container.state.running and before is not None and before.failed


def _of_before(cause: Cause, evidence: Evidence, names: Mapping[str, str]) -> Cause:
    """The failure of pods from before the last restart, while they exist, is the cause of the restart."""
    failure, jobset = first_failure(evidence), evidence.seen.jobset
    if failure is None or jobset is None or failure.pod.attempt >= jobset.restarts or cause.where != place(failure.pod):
        return cause
    message = f"It was restarted {names['times']}, the last time for this: {cause.message}"
    return replace(cause, message=message)


def _crash_loop(first: Cause, evidence: Evidence) -> Cause | None:
    """Return the cause of earlier attempts that ended in the same way without more steps: another attempt will not
    help."""
    failure = first_failure(evidence)
    signature = failure.said.signature if failure and failure.said else ""
    step = evidence.seen.progress.step if evidence.seen.progress else None
    same = 0
    for end in reversed(evidence.earlier):
        got_further = step is not None and end.step is not None and step > end.step
        if not signature or end.signature != signature or got_further:
            break
        same += 1
    if not same:
        return None
    message = f"It ended in the same way {same + 1} times without progress. {first.message}"
    return replace(first, id="crash-loop", message=message)


def words(evidence: Evidence) -> dict[str, str]:
    """Return the placeholders of rule messages; an unknown value is `unknown` or empty."""
    observation, progress = evidence.seen, evidence.seen.progress
    step = str(progress.step) if progress and progress.step is not None else "?"
    steps = observation.steps_asked
    reason = BY_SLUG.get(evidence.status.reason)
    return {
        "run": observation.run_name,
        "jobset": observation.jobset.name if observation.jobset else observation.run_name,
        "namespace": observation.jobset.namespace if observation.jobset else "default",
        "workload": observation.workload.name if observation.workload else observation.run_name,
        "state": evidence.status.state,
        "meaning_of_state": f"It is {evidence.status.state}: {reason.meaning}." if reason else "",
        "step": step,
        "steps": str(steps) if steps is not None else "?",
        "progress": f", step {step} of {steps}" if step != "?" and steps is not None else "",
        "saved": str(progress.saved_step) if progress and progress.saved_step is not None else "?",
        "no_target_steps": str(progress.no_target_steps) if progress and progress.no_target_steps else "several",
        "not_finite_steps": str(progress.not_finite_steps) if progress and progress.not_finite_steps else "several",
        "zero_loss_steps": str(progress.zero_loss_steps) if progress else "",
        "stop": "" if evidence.status.state in ENDED else f"Cancel this run (xsft cancel {observation.run_name}). ",
        "observed": with_z(observation.observed_at),
        "silence": _silence_text(evidence),
        "median": _median_text(evidence),
        "exits": _exits_text(evidence),
        "exit_after": _exit_after(evidence),
        **restart_words(evidence),
        "holders": _listed("Held by", [_neighbour_text(neighbour) for neighbour in evidence.holders or ()]),
        "quotas": _listed(
            "In use:",
            [f"{quota.used} of {quota.total} {quota.resource} of {quota.flavor}" for quota in evidence.quotas or ()],
        ),
        "queue": _listed("Ahead of it:", [_neighbour_text(neighbour) for neighbour in evidence.ahead or ()]),
    }


def _silent_s(evidence: Evidence) -> float | None:
    """Seconds without output, up to the time the log was read."""
    progress = evidence.seen.progress
    until = earliest(evidence.seen.observed_at, progress.read_at) if progress else None
    return seconds_between(progress.said_at, until) if progress else None


def _silence_text(evidence: Evidence) -> str:
    seconds = _silent_s(evidence)
    return "a long time" if seconds is None else f"{seconds / 60:.0f} minutes"


def _median_text(evidence: Evidence) -> str:
    """`, 25 times its median step of 12 s`."""
    seconds, progress = _silent_s(evidence), evidence.seen.progress
    if (
        seconds is None
        or progress is None
        or not progress.step_seconds
        or progress.step_seconds != progress.step_seconds
    ):
        return ""
    return f", {seconds / progress.step_seconds:.0f} times its median step of {progress.step_seconds:.3g} s"


def _exits_text(evidence: Evidence) -> str:
    """Return what an exit code means to xpk's JobSets, and to Pathways' as xsft patches them. It has no effect in a pod
    that restarts its container itself (restartPolicy OnFailure)."""
    jobset, failure = evidence.seen.jobset, first_failure(evidence)
    if jobset is None or not jobset.ours:
        return ""
    if failure is not None and failure.in_place:
        times = times_text(failure.container.restart_count)
        return f"Its pod restarts the container, {times} so far, whatever the exit code."
    if not jobset.max_restarts:
        return "It is not restarted (restarts.max is 0)."
    return (
        f"Exit codes 42 and 127 to 255 restart the run, {jobset.restarts} of {jobset.max_restarts} times so far; "
        "other exit codes end the run."
    )


def _exit_after(evidence: Evidence) -> str:
    """Describe the exit of a process that ended after the last step was saved."""
    failure, record = first_failure(evidence), evidence.seen.record
    if failure is not None:
        code = failure.end.exit_code
        how = f"exit code {'unknown' if code is None else code} ({failure.end.reason or 'Error'})"
        return f"Afterwards {place(failure.pod)} ended with {how}."
    return f"Afterwards: {record.reason}." if record and record.reason else "A process failed afterwards."


def times_text(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _listed(lead: str, texts: Sequence[str]) -> str:
    return f"{lead} {list_names(texts)}." if texts else ""


def _neighbour_text(neighbour: Neighbour) -> str:
    facts = [neighbour.holds, f"priority {neighbour.priority}" if neighbour.priority is not None else ""]
    description = ", ".join(fact for fact in facts if fact)
    return f"{neighbour.name} ({description})" if description else neighbour.name

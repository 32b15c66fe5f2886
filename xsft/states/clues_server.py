"""Clues for the rules of `why` about a server on a cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.states.evidence import Evidence
from xsft.states.failing import first_failure, place
from xsft.states.rule import Clue
from xsft.states.serving import server_state

LAST_LINES = 5


def server(evidence: Evidence) -> Iterator[Clue]:
    """Return `state reason` of a server, with its pod and the last log lines of a container that ended."""
    held, seen = evidence.seen.jobset, evidence.seen
    if held is None or not held.serves:
        return
    failure, pod = first_failure(evidence), next((one for one in seen.pods or () if not one.deleting), None)
    lines = failure.log.lines[-LAST_LINES:] if failure and failure.log else ()
    yield Clue(
        text=f"{evidence.status.state} {evidence.status.reason}",
        where=place(pod) if pod else "",
        quoted=lines or tuple(one.message for one in (evidence.events or ())[-1:]),
        values={"why": server_state(held, seen.pods).why, "image": held.image or "its image"},
    )

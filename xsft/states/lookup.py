"""From what was read to the runs that were named: exact names only, and nothing that was not read is called missing.
Pure.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Protocol

from xsft.errors import Unreachable, UsageError, XsftError
from xsft.problems import Problem
from xsft.states.folding import Seen, folder, named
from xsft.states.model import Observation, Unread
from xsft.states.waiting import LASTING, MENDS_ITSELF


class Reading(Protocol):
    """What the runs' clusters and this machine said, at one time (`effects.runs.Reading`)."""

    @property
    def observations(self) -> tuple[Observation, ...]: ...

    def parts(self) -> Iterator[tuple[Observation, ...]]:
        """The same, what is there first first: whole runs (`folding.fold_parts`)."""

    @property
    def problems(self) -> tuple[Problem, ...]: ...

    @property
    def answered(self) -> bool:
        """Anything could be read at all."""

    @property
    def whole(self) -> bool:
        """Everything that was asked answered, so that a run which is not here is not there."""

    @property
    def known(self) -> Callable[[], tuple[str, ...]]:
        """Names of all runs, where `observations` are of those that were named only."""


class Read(Protocol):
    """Reads the runs now. Raises as its sources do only where a single one was asked for."""

    def __call__(self) -> Reading: ...


def require_answer(found: Reading) -> None:
    """Raises Unreachable where nothing at all could be read."""
    if not found.answered:
        raise unread(found, "Nothing could be read")


def unread(found: Reading, what: str) -> Unreachable:
    """With what stood in the way, and the first one's next step; its id where waiting mends none of them."""
    said = (" ".join(p.message.split()).rstrip(".") for p in found.problems)
    why = "; ".join(dict.fromkeys(said)) or "no cluster answered"
    fix = next((p.fix for p in found.problems if p.fix), "Try again, or name one place: --place NAME.")
    return Unreachable(f"{what}: {why}.", fix=fix, id=_common_id(found.problems))


def _common_id(problems: Sequence[Problem]) -> str:
    """The first that lasts, where none of them may mend itself."""
    ids = [p.id for p in problems]
    return Unreachable.id if MENDS_ITSELF.intersection(ids) else next((i for i in ids if i in LASTING), Unreachable.id)


def require_names(names: Sequence[str], rows: Sequence[Seen], found: Reading) -> None:
    """Raises `lacking`."""
    if failed := lacking(names, rows, found):
        raise failed


def lacking(names: Sequence[str], rows: Sequence[Seen], found: Reading) -> XsftError | None:
    """As `missing` for the first name that nothing has, the others beside it; None where all are there."""
    failed = [missing(name, rows, found) for name in dict.fromkeys(names) if not named(rows, name)]
    return reduce(lambda first, other: first.beside(other), failed) if failed else None


def missing(name: str, rows: Sequence[Seen], found: Reading) -> XsftError:
    """Names are never matched by their beginnings: a command that acts must not guess."""
    if not found.whole:
        return unread(found, f"There is no run {name!r} in what could be read, and not everything could be")
    jobsets = {one.jobset.name for row in rows for one in row.attempts if one.jobset}
    known = sorted({row.row.run_name for row in rows} | jobsets | set(found.known()))
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5) or [k for k in known if name and name in k][:3]
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return UsageError(
        f"There is no run named exactly {name!r}.{meant}",
        fix="xsft status --all shows all that can be seen from here; --place or --context look elsewhere.",
        id="run-missing",
    )


def one_run(name: str, rows: Sequence[Seen], found: Reading) -> Seen:
    """Exactly one. Raises as `missing`, and UsageError where several are named so."""
    hits = named(rows, name)
    if not hits:
        raise missing(name, rows, found)
    if len(hits) > 1:
        where = "; ".join(_place(hit) for hit in hits)
        raise UsageError(
            f"{len(hits)} runs are named {name!r}: {where}.",
            fix=_which(hits),
            id="run-ambiguous",
        )
    return hits[0]


def _which(hits: Sequence[Seen]) -> str:
    """Of those on this machine each has its folder, of those on clusters each its place."""
    here = [where for hit in hits if (where := folder(hit.row))]
    ways = [f"its folder instead of its name ({here[0]})"] if here else []
    if len(hits) > sum(hit.row.on_this_machine for hit in hits):
        ways.append("--place NAME, or --context NAME and --namespace NAME")
    return f"Say which: {'; or '.join(ways)}."


def silence(seen: Observation) -> str | None:
    """Why its cluster does not answer; None where it did, and for a run on this machine. What an observation holds
    beside it is of an earlier call.
    """
    found = silent(seen)
    return found.why if found else None


def silent(seen: Observation) -> Unread | None:
    """As `silence`, with the failure's id."""
    return next((one for one in seen.unread if one.what == "jobsets"), None)


def _place(hit: Seen) -> str:
    row = hit.row
    if row.on_this_machine:
        return f"this machine, {folder(row) or 'in a folder that is not known'}"
    if row.namespace is None:  # it is known by its record only
        return f"{f'JobSet {row.jobset}' if row.jobset else 'its JobSet'} of {row.cluster}, which is gone"
    return f"JobSet {row.jobset} in namespace {row.namespace} of {row.cluster}"

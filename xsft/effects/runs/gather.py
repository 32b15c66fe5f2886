"""All runs in one result: those of every queried cluster, those of this machine, and those that their cluster no longer
has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from xsft.effects.machine.parallel import Hurry, start
from xsft.effects.records.records import RecordStore
from xsft.effects.runs.ask import Look
from xsft.effects.runs.forgotten import cluster_of
from xsft.effects.runs.local import observe_local
from xsft.effects.runs.patience import Say
from xsft.effects.runs.printer_log import LONG_TAIL, TAIL
from xsft.effects.runs.progress import ProgressSource, not_asked, read_progress
from xsft.effects.runs.turns import Turns, turns
from xsft.effects.runs.wanted import Wanted
from xsft.problems import Problem
from xsft.reading.lastknown_line import LastKnown
from xsft.states.model import Observation, Progress


class Gathered(Struct, frozen=True, kw_only=True):
    settled: tuple[Observation, ...]
    """Observations that are complete: whole runs, with all their attempts."""
    rest: Callable[[], tuple[Observation, ...]]
    """Return the other observations, once their progress is read. Raises no XsftError."""
    problems: tuple[Problem, ...] = ()
    """One warning per cluster that did not answer."""
    answered: bool = True
    """Whether anything could be read at all."""
    whole: bool = True
    """Whether every queried cluster answered."""

    @property
    def observations(self) -> tuple[Observation, ...]:
        return tuple(chain.from_iterable(self.parts()))

    def parts(self) -> Iterator[tuple[Observation, ...]]:
        """Yield the complete observations first, so that the caller can use them while the others are read."""
        yield self.settled
        yield self.rest()


def gather_runs(
    look: Look,
    *,
    store: RecordStore,
    local: bool = True,
    say: Say = lambda _line: None,
) -> Gathered:
    """Return one Observation per attempt of a run. Raises no XsftError. `local`: also the runs on this machine. `say`
    is called with a line that names the cluster being waited for.

    For a cluster that does not answer, the result holds what was last known of its runs, if anything, and a problem.
    """
    wanted, entries = look.wanted, look.index.entries
    here = observe_local((one for one in entries if wanted.entry(one)), now=wanted.now) if local else ()
    answers = look.answers(say=say)
    found = tuple(seen for answer in answers for seen in answer.observations)
    silent = tuple(answer.problem for answer in answers if answer.problem is not None)
    clusters = {one.name: answer.cluster for one, answer in zip(look.targets, answers, strict=True) if answer.cluster}
    pods = {(one.name, one.namespace): answer.first_pods for one, answer in zip(look.targets, answers, strict=True)}
    outputs = {(cluster_of(one), one.run_name): one.output for one in entries if one.output}
    source = ProgressSource(clusters=clusters, store=store, outputs=outputs, first_pods=pods)
    whose, known = turns(found, wanted=wanted), [answer.known for answer in answers]
    hurry = Hurry(first=whose.first, until=look.begun_at + wanted.effort.soon_s)
    read = start(partial(_read, whose.asked, source=source, wanted=wanted, hurry=hurry))
    settled, beside = _parted(whose, wanted=wanted)
    return Gathered(
        settled=(*_with_last_words(settled, known), *here),
        rest=lambda: (*_with_last_words((*read.result(), *beside), known),),
        problems=(*silent, *look.index.problems),
        answered=len(silent) < len(answers) or not answers or bool(found) or bool(here),
        whole=not silent,
    )


def _read(
    asked: Sequence[Observation], *, source: ProgressSource, wanted: Wanted, hurry: Hurry
) -> tuple[Observation, ...]:
    tail = LONG_TAIL if wanted.names else TAIL
    return read_progress(asked, source=source, deadline_s=wanted.effort.progress_s, tail=tail, hurry=hurry)


def _parted(whose: Turns, *, wanted: Wanted) -> tuple[list[Observation], list[Observation]]:
    """Split the observations whose progress is not read: first those of other runs, then those of the same runs as the
    observations that are read.
    """
    runs = {one.shared_name for one in whose.asked}
    parts: tuple[list[Observation], list[Observation]] = ([], [])
    for one in whose.left:
        parts[one.shared_name in runs].append(not_asked(one) if wanted.progress(one) else one)
    return parts


def _with_last_words(several: Iterable[Observation], known: Sequence[Mapping[str, LastKnown]]) -> Iterator[Observation]:
    return (_with_last(one, known) for one in several)


def _with_last(seen: Observation, known: Sequence[Mapping[str, LastKnown]]) -> Observation:
    """Return the observation with the progress of the last read, for what cannot be read now.

    All of it for a failed run whose log is gone with its pods, and for a run whose JobSet is gone. Not for a completed
    run: an older step could be taken for its last. The last checkpoint for any other run, since the end of a log need
    not contain it.
    """
    said, held, gone = seen.progress, seen.jobset or seen.was, seen.jobset is None
    unsaid = said.saved_step is None if said else held is not None and held.terminal == "Failed"
    last = _last(held.uid, known) if held is not None and (gone or unsaid) else None
    if last is None:
        return seen
    if said is None:
        return replace(seen, progress=last)
    further = gone and last.step is not None and last.step > (said.step or 0)
    saved = said.saved_step if said.saved_step is not None else last.saved_step
    return replace(seen, progress=replace(last if further else said, saved_step=saved))


def _last(uid: str, known: Sequence[Mapping[str, LastKnown]]) -> Progress | None:
    return next((one[uid].progress for one in known if uid in one), None)

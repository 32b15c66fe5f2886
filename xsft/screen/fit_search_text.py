"""The result of a search for a fitting configuration: as text, and as a part of the document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import Any

from msgspec import Struct, to_builtins

from xsft.errors import TimedOut, UsageError
from xsft.fit.alternatives import Alternative, SettingValue
from xsft.fit.search import FitSearch, SearchEnd, TriedAlternative
from xsft.fit.verdict import DoesNotFit, Fits, Invalid, Marginal, Verdict
from xsft.screen.fit_text import FitAnswer
from xsft.spec.amounts import duration_text
from xsft.spec.resolve import Run
from xsft.trainers.fit_step import tunable_run

INTERRUPTED = 130
UNTRIED = {
    "takes-no-less": "no less memory than one that was refused",
    "hopeless": "estimated far above the chip, not compiled",
    "open": "not reached",
}


class RefusedAlternative(Struct, frozen=True, kw_only=True):
    """An alternative that arithmetic refuses."""

    alternative: Alternative
    place: int
    """Position of the next candidate in the order of preference."""
    why: str


class FoundFit(Struct, frozen=True, kw_only=True):
    """The result of a search."""

    run: Run
    """The workload as it is."""
    budget_s: float
    search: FitSearch
    refused: tuple[RefusedAlternative, ...]
    stopped: SearchEnd
    written: bool = False

    @property
    def begins(self) -> str:
        """Return what the search will do, in one line."""
        return (
            f"Searching {len(self.search.candidates)} alternatives ({len(self.refused)} more are refused by "
            f"arithmetic), one compilation at a time, for up to {duration_text(self.budget_s)}."
        )

    @property
    def preferred(self) -> tuple[RefusedAlternative, ...]:
        """Return the refused alternatives that would be preferred to the best."""
        best = self.search.best
        return tuple(one for one in self.refused if best is None or one.place <= best.place)

    @property
    def settings(self) -> dict[str, SettingValue]:
        """Return the changes that make it fit; empty if none were found."""
        return self.search.best.alternative.settings if self.search.best else {}

    def exit_status(self, as_it_is: Verdict) -> int:
        if self.stopped == "interrupted":
            return INTERRUPTED
        if self.settings or isinstance(as_it_is, Fits):
            return 0
        return TimedOut.exit_status if self.stopped == "budget" else UsageError.exit_status


def tried_line(search: FitSearch) -> str:
    """Return the line about the alternative that was tried last."""
    last = search.tried[-1]
    best = " (the best so far)" if search.best is last else ""
    return f"  {_verdict_text(last)}: {last.alternative.words}{best}"


def rejection(verdict: Verdict) -> str:
    """Return why an alternative is rejected."""
    match verdict:
        case DoesNotFit(told_by="bound"):
            return f"needs at least {verdict.needed_gib:.2f} GiB of {verdict.limit_gib:.2f} for its state alone"
        case DoesNotFit():
            return f"needs {verdict.needed_gib:.2f} GiB of {verdict.limit_gib:.2f}"
        case Marginal():
            return f"only just: sum {verdict.sum_gib:.2f} GiB of {verdict.limit_gib:.2f}"
        case Invalid(because=because):
            return because.message
        case Fits():
            return f"peak {verdict.peak_gib:.2f}, sum {verdict.sum_gib:.2f} GiB of {verdict.limit_gib:.2f}"


def _verdict_text(one: TriedAlternative) -> str:
    if one.verdict is None:
        return f"no verdict, {one.why}"
    name = {"fits": "FITS", "marginal": "MARGINAL", "no": "NO", "invalid": "INVALID"}[_verdict_name(one.verdict)]
    return f"{name}, {rejection(one.verdict)}"


def _verdict_name(verdict: Verdict) -> str:
    return str(to_builtins(verdict)["verdict"])


def found_lines(
    found: FoundFit, base: FitAnswer, *, texts: tuple[str, str], given: Sequence[str] = ()
) -> Iterator[str]:
    """Yield what was found, what was rejected, and the change of the file. `given`: the settings of --set, which the
    file lacks.
    """
    best = found.search.best
    if isinstance(base.verdict, Fits):
        yield "It fits as it is: nothing to search."
        return
    yield from _ending(found)
    yield from _rejected(found)
    if best is None:
        yield "No alternative that fits was found."
        return
    known = not any(why == "open" for _, why in found.search.untried())
    yield f"The nearest {'' if known else 'so far '}that fits: {best.alternative.words}."
    yield from _training(best.alternative, base)
    yield from _diff(base.file, texts)
    if given:
        yield f"It fits with {', '.join(given)}: write that into the file too, then apply this with --write."
    else:
        yield "Written." if found.written else "Apply it with --write."


def _training(best: Alternative, base: FitAnswer) -> Iterator[str]:
    """Yield the other effects on the training, besides the changed keys."""
    as_it_is = tunable_run(base.run)
    if as_it_is and best.run.tokens_per_step != as_it_is.tokens_per_step:
        yield f"A step trains {best.run.tokens_per_step:,.0f} tokens instead of {as_it_is.tokens_per_step:,.0f}."


def _ending(found: FoundFit) -> Iterator[str]:
    match found.stopped:
        case "budget":
            yield f"Stopped after {duration_text(found.budget_s)}; the same command continues (verdicts are kept)."
        case "interrupted":
            yield "Interrupted; the same command continues (verdicts are kept)."
        case "done":
            return


def _rejected(found: FoundFit) -> Iterator[str]:
    """Yield why each alternative that would be preferred was rejected; compiled ones had their line before."""
    yield from (f"  {one.alternative.words}: {one.why}" for one in found.preferred)
    untried = [(found.search.candidates[place].alternative.words, why) for place, why in found.search.untried()]
    yield from (f"  {words}: {UNTRIED[why]}" for words, why in untried if why != "open")
    if left := sum(why == "open" for _, why in untried):
        yield f"  {left} alternatives were {UNTRIED['open']}."


def _diff(file: str, texts: tuple[str, str]) -> Iterator[str]:
    before, after = (text.splitlines() for text in texts)
    yield from unified_diff(before, after, fromfile=file, tofile=file, n=1, lineterm="")


def found_document(found: FoundFit, *, texts: tuple[str, str]) -> dict[str, Any]:
    """Return `alternatives` and `search` of an entry of the document `xsft.fit/1`."""
    search = found.search
    refused = [_alternative(one.alternative, None, source="arithmetic", why=one.why) for one in found.preferred]
    tried = [_alternative(one.alternative, one.verdict, source=one.source, why=one.why) for one in search.tried]
    untried = [
        _alternative(search.candidates[place].alternative, None, source="", why=UNTRIED[why])
        for place, why in search.untried()
    ]
    return {
        "alternatives": [*tried, *refused, *untried],
        "search": {
            "settings": found.settings or None,
            "stopped": found.stopped,
            "budget_s": found.budget_s,
            "diff": "\n".join(_diff(found.run.run_name, texts)),
            "written": found.written,
        },
    }


def _alternative(one: Alternative, verdict: Verdict | None, *, source: str, why: str) -> dict[str, Any]:
    accepted = verdict if isinstance(verdict, Fits | Marginal) else None
    refused = verdict if isinstance(verdict, DoesNotFit) else None
    return {
        "settings": one.settings,
        "verdict": _verdict_name(verdict) if verdict else None,
        "peak_gib": accepted.peak_gib if accepted else None,
        "sum_gib": accepted.sum_gib if accepted else None,
        "needed_gib": refused.needed_gib if refused else None,
        "source": source,
        "why": why or (rejection(verdict) if verdict and not isinstance(verdict, Fits) else ""),
    }

"""The result of a search for a fitting configuration: as text, and as a part of the document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import Any

from msgspec import to_builtins

from xsft.base.amounts import duration_text
from xsft.fit.alternatives import Alternative
from xsft.fit.search import FitSearch, TriedAlternative
from xsft.fit.trainer_step import tunable_run
from xsft.fit.verdict import DoesNotFit, Fits, Marginal, Verdict, rejection
from xsft.launch.fit_answers import FitAnswer
from xsft.launch.fit_search import FoundFit

UNTRIED = {
    "takes-no-less": "no less memory than one that was refused",
    "hopeless": "estimated far above the chip, not compiled",
    "open": "not reached",
}


def search_begins(found: FoundFit) -> str:
    """Return what the search will do, in one line."""
    return (
        f"Searching {len(found.search.candidates)} alternatives ({len(found.refused)} more are refused by "
        f"arithmetic), one compilation at a time, for up to {duration_text(found.budget_s)}."
    )


def tried_line(search: FitSearch) -> str:
    """Return the line about the alternative that was tried last."""
    last = search.tried[-1]
    best = " (the best so far)" if search.best is last else ""
    return f"  {_verdict_text(last)}: {last.alternative.words}{best}"


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
    yield from _ending_lines(found)
    yield from _rejected_lines(found)
    if best is None:
        yield "No alternative that fits was found."
        return
    known = not any(why == "open" for _, why in found.search.untried_candidates())
    yield f"The nearest {'' if known else 'so far '}that fits: {best.alternative.words}."
    yield from _training_lines(best.alternative, base)
    yield from _diff(base.file, texts)
    if given:
        yield f"It fits with {', '.join(given)}: write that into the file too, then apply this with --write."
    else:
        yield "Written." if found.written else "Apply it with --write."


def _training_lines(best: Alternative, base: FitAnswer) -> Iterator[str]:
    """Yield the other effects on the training, besides the changed keys."""
    as_it_is = tunable_run(base.run)
    if as_it_is and best.run.tokens_per_step != as_it_is.tokens_per_step:
        yield f"A step trains {best.run.tokens_per_step:,.0f} tokens instead of {as_it_is.tokens_per_step:,.0f}."


def _ending_lines(found: FoundFit) -> Iterator[str]:
    match found.stopped:
        case "budget":
            yield f"Stopped after {duration_text(found.budget_s)}; the same command continues (verdicts are kept)."
        case "interrupted":
            yield "Interrupted; the same command continues (verdicts are kept)."
        case "done":
            return


def _rejected_lines(found: FoundFit) -> Iterator[str]:
    """Yield why each alternative that would be preferred was rejected; compiled ones had their line before."""
    yield from (f"  {one.alternative.words}: {one.why}" for one in found.preferred)
    untried = [
        (found.search.candidates[place].alternative.words, why) for place, why in found.search.untried_candidates()
    ]
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
        for place, why in search.untried_candidates()
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

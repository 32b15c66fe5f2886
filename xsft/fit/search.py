"""The search for an alternative that fits: its results so far, and the next one to compile. Pure.

Most preferred first, in two groups: those whose estimate exceeds the chip, because a refusal takes a minute and an
acceptance several; then those that are likely to fit, and if none is, the smallest. Once one fits, all that are
preferred to it are compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from xsft.fit.alternatives import Alternative
from xsft.fit.verdict import DoesNotFit, Fits, Marginal, Verdict

HOPELESS = 1.5
"""An estimate of so many times the chip is not compiled; the estimate errs by half at most (fit/trainer_step.py)."""
HEADROOM = 0.95
"""After an alternative that is neither refused nor fits, the estimate of the next one must be smaller by this
factor."""


FitSource = Literal["arithmetic", "catalogue", "cache", "compiler"]


class FitCandidate(Struct, frozen=True, kw_only=True):
    """An alternative that arithmetic does not refuse."""

    alternative: Alternative
    share: float
    """Estimated memory as a share of the chip's; 0: no estimate."""


class TriedAlternative(Struct, frozen=True, kw_only=True):
    """An alternative with the compiler's verdict; without one, `why` says what happened."""

    place: int
    """Position in the order of preference."""
    alternative: Alternative
    verdict: Verdict | None
    source: FitSource
    why: str = ""


UntriedReason = Literal["takes-no-less", "hopeless", "open"]
"""Why a candidate was not compiled: a refused one takes no more memory, its estimate is far above the chip, or the
search ended first."""
SearchEnd = Literal["done", "budget", "interrupted"]


class FitSearch(Struct, frozen=True, kw_only=True):
    """The state of a search."""

    candidates: tuple[FitCandidate, ...]
    """The most preferred first."""
    scale: tuple[float, ...] = ()
    """Compiled figures over their estimates."""
    tried: tuple[TriedAlternative, ...] = ()

    @property
    def best(self) -> TriedAlternative | None:
        """Return the most preferred alternative that fits; None until there is one."""
        accepted = [tried for tried in self.tried if isinstance(tried.verdict, Fits)]
        return min(accepted, key=lambda tried: tried.place, default=None)

    @property
    def next_place(self) -> int | None:
        """Return the candidate to compile next; None if the best one is known to be the best, or nothing is left."""
        places = [place for place, why in self.untried_candidates() if why == "open"]
        if self.best is not None or not places:
            return next(iter(places), None)
        in_vain = sum(not isinstance(tried.verdict, DoesNotFit) for tried in self.tried)
        likely = [place for place in places if self._estimate(place) <= HEADROOM**in_vain]
        if not likely:
            return min(places, key=lambda place: self.candidates[place].share)
        return next(place for place in places if place == likely[0] or self._estimate(place) > 1)

    def untried_candidates(self) -> Iterator[tuple[int, UntriedReason]]:
        """Yield the candidates without a verdict that are preferred to the best, with why they are not compiled."""
        best, done = self.best, {tried.place for tried in self.tried}
        for place in range(best.place if best else len(self.candidates)):
            if place not in done:
                yield place, self._why(place)

    def with_verdict(self, place: int, verdict: Verdict | None, *, source: FitSource, why: str = "") -> FitSearch:
        candidate = self.candidates[place]
        tried = TriedAlternative(
            place=place, alternative=candidate.alternative, verdict=verdict, source=source, why=why
        )
        return replace(
            self, tried=(*self.tried, tried), scale=(*self.scale, *measured_over_estimate(verdict, candidate.share))
        )

    def _why(self, place: int) -> UntriedReason:
        alternative = self.candidates[place].alternative
        if any(isinstance(t.verdict, DoesNotFit) and takes_no_less(alternative, t.alternative) for t in self.tried):
            return "takes-no-less"
        return "hopeless" if self._estimate(place) > HOPELESS else "open"

    def _estimate(self, place: int) -> float:
        return self.candidates[place].share * (median(self.scale) if self.scale else 1.0)


def measured_over_estimate(verdict: Verdict | None, share: float) -> tuple[float, ...]:
    """Return the compiler's figure over an estimate, if there are both. `share`: the estimate over the chip."""
    match verdict:
        case Fits() | Marginal() if share:
            return (verdict.sum_gib / verdict.limit_gib / share,)
        case DoesNotFit(told_by="compiler") if share:
            return (verdict.needed_gib / verdict.limit_gib / share,)
        case _:
            return ()


def takes_no_less(alternative: Alternative, refused: Alternative) -> bool:
    """Return whether an alternative differs from a refused one only in what takes as much memory or more."""
    a, b = alternative.run, refused.run
    same = (a.tpu, a.num_slices, a.ici, a.dcn) == (b.tpu, b.num_slices, b.ici, b.dcn)
    wider = all(x in (y, "float32") for x, y in ((a.weights, b.weights), (a.moment_dtype, b.moment_dtype)))
    remat = a.remat == b.remat or b.offloaded or (b.remat == "full" and not a.offloaded)
    return same and wider and remat and a.lora <= b.lora and a.batch >= b.batch and a.tokens >= b.tokens

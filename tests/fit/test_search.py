from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.fit.test_alternatives import tunable
from xsft.fit.alternatives import Alternative, SearchLimits, alternatives
from xsft.fit.search import HOPELESS, FitCandidate, FitSearch, measured_over_estimate, takes_no_less
from xsft.fit.translate import InvalidStep
from xsft.fit.verdict import DoesNotFit, Fits, Invalid, Marginal, Verdict

LIMIT = 32.0
FOUND = alternatives(tunable(batch=4.0), SearchLimits(keep=("tpu.type",)))


def verdict(share: float) -> Verdict:
    gib = share * LIMIT
    if share > 1.0:
        return DoesNotFit(needed_gib=gib, limit_gib=LIMIT, told_by="compiler")
    return Fits(peak_gib=gib, sum_gib=gib, limit_gib=LIMIT, by=None)


def of(*shares: float) -> FitSearch:
    pairs = zip(FOUND, shares, strict=False)
    return FitSearch(
        candidates=tuple(FitCandidate(alternative=alternative, share=share) for alternative, share in pairs)
    )


def ended(search: FitSearch, real: list[float]) -> FitSearch:
    while (place := search.next_place) is not None:
        search = search.with_verdict(place, verdict(real[place]), source="compiler")
    return search


def test_search_tries_likely_refusals_first_then_a_likely_fit() -> None:
    search = of(1.3, 1.2, 0.9, 0.5)
    for place in range(3):
        assert search.next_place == place
        search = search.with_verdict(place, verdict(search.candidates[place].share), source="compiler")
    assert search.best is not None
    assert (search.best.place, search.next_place) == (2, None)


def test_search_tries_preferred_alternatives_after_the_first_fit() -> None:
    """Without this one an alternative that asked for less headroom would stay open."""
    just = Marginal(peak_gib=30.0, sum_gib=32.1, limit_gib=LIMIT, by=None)
    search = of(0.99, 0.98, 0.6).with_verdict(0, just, source="compiler")
    search = search.with_verdict(2, verdict(0.6), source="compiler")
    assert search.next_place == 1


def test_a_refusal_corrects_the_estimates() -> None:
    search = of(0.9, 1.1, 0.4).with_verdict(0, verdict(1.35), source="compiler")
    assert search.scale == (1.5,)
    assert search.next_place == 2


def test_each_failed_trial_raises_the_required_headroom() -> None:
    """Else a search compiles one marginal alternative after another, minutes each, before one that surely fits."""
    just = Marginal(peak_gib=30.0, sum_gib=32.1, limit_gib=LIMIT, by=None)
    search = of(0.99, 0.98, 0.96, 0.6).with_verdict(0, just, source="compiler")
    assert search.next_place == 3


def test_search_tries_the_smallest_if_none_is_likely_to_fit() -> None:
    assert of(1.4, 1.1, 1.2).next_place == 1
    assert of().next_place is None


def test_marginal_or_unknown_alternative_is_never_the_best() -> None:
    just = Marginal(peak_gib=30.0, sum_gib=33.0, limit_gib=LIMIT, by=None)
    search = of(0.9, 0.9).with_verdict(0, just, source="compiler")
    search = search.with_verdict(1, None, source="compiler", why="killed")
    assert (search.best, search.next_place) == (None, None)
    assert measured_over_estimate(Invalid(because=InvalidStep(where="", message="", fix="")), 0.5) == ()


def by_settings(**settings: object) -> Alternative:
    return next(
        alternative
        for alternative in FOUND
        if {k.rpartition(".")[2]: v for k, v in alternative.settings.items()} == settings
    )


def test_takes_no_less_compares_memory_by_settings() -> None:
    half, quarter = by_settings(per_device_batch_size=2), by_settings(per_device_batch_size=1)
    short = by_settings(per_device_batch_size=1, max_target_length=512)
    moments = by_settings(per_device_batch_size=2, mu_dtype="bfloat16")
    assert takes_no_less(half, quarter)
    assert takes_no_less(quarter, short)
    assert takes_no_less(half, moments)
    assert not takes_no_less(quarter, half)
    assert not takes_no_less(moments, quarter)
    assert not takes_no_less(by_settings(num_slices=2), quarter)


REAL = st.lists(st.floats(0.2, 3.0), min_size=1, max_size=len(FOUND))


@given(REAL, st.data())
def test_search_ends_with_the_most_preferred_alternative_not_ruled_out(real: list[float], data: st.DataObject) -> None:
    shares = [share * data.draw(st.floats(0.8, 1.2)) for share in real]
    fit_search = ended(of(*shares), real)
    assert len({candidate.place for candidate in fit_search.tried}) == len(fit_search.tried)
    best = fit_search.best
    for place in range(best.place if best else len(real)):
        why = dict(fit_search.untried_candidates()).get(place)
        assert real[place] > 1.0 or why in ("takes-no-less", "hopeless")
        assert why != "open"
    assert not any(
        real[candidate.place] <= 1.0 for candidate in fit_search.tried if best and candidate.place < best.place
    )
    assert HOPELESS > 1.0

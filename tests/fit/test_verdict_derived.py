from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xsft.fit.verdict import CompiledStep, DoesNotFit, Fits, Marginal, Verdict, known_step

YES = Fits(peak_gib=1.0, sum_gib=1.0, limit_gib=31.24, by=None)
JUST = Marginal(peak_gib=1.0, sum_gib=33.0, limit_gib=31.24, by=None)
NO = DoesNotFit(needed_gib=40.0, limit_gib=31.24, told_by="compiler")


def entry(verdict: Verdict, tokens: int) -> CompiledStep:
    return CompiledStep(verdict=verdict, tokens=tokens, versions={}, made_at="")


@given(st.lists(st.tuples(st.sampled_from([YES, JUST, NO]), st.integers(1, 9000)), max_size=5), st.integers(1, 9000))
def test_verdict_is_derived_only_from_sound_conclusions(compiled: list[tuple[Verdict, int]], tokens: int) -> None:
    step = known_step([entry(verdict, entry_tokens) for verdict, entry_tokens in compiled], tokens=tokens)
    if step is None:
        return
    assert step.derived == (step.entry.tokens != tokens)
    if step.derived:
        longer = step.entry.tokens > tokens
        assert step.entry.verdict == (YES if longer else NO)


def test_verdict_comes_from_the_nearest_entry() -> None:
    entries = [entry(YES, 2048), entry(YES, 8192), entry(NO, 16384)]
    steps_by_tokens = {tokens: known_step(entries, tokens=tokens) for tokens in (1024, 2048, 4096, 9000, 16384, 20000)}
    assert {tokens: one.entry.tokens if one else None for tokens, one in steps_by_tokens.items()} == {
        1024: 2048, 2048: 2048, 4096: 8192, 9000: None, 16384: 16384, 20000: 16384,
    }  # fmt: skip
    assert known_step([], tokens=1024) is None
    assert known_step([entry(JUST, 2048)], tokens=1024) is None

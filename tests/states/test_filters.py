"""The words of filters mean what docs/states.md says."""

from __future__ import annotations

import pytest

from xsft.states.filters import WORDS, is_active, is_running, matches
from xsft.states.model import ENDED, RUNNING, STATES, State


@pytest.mark.parametrize("state", STATES)
def test_a_state_means_itself_and_no_other(state: State) -> None:
    assert [word for word in STATES if matches(state, word)] == [state]


@pytest.mark.parametrize("state", STATES)
def test_the_words_for_several_states(state: State) -> None:
    assert matches(state, "running") == is_running(state) == (state in {"compiling", "training", "saving"})
    assert matches(state, "ended") == (state in {"succeeded", "failed", "cancelled"})
    assert matches(state, "active") == is_active(state) == (not matches(state, "ended"))
    assert all(isinstance(matches(state, word), bool) for word in WORDS)


def test_a_word_that_is_none_is_refused() -> None:
    with pytest.raises(KeyError, match="runing"):
        matches("training", "runing")


def test_running_and_ended_share_nothing() -> None:
    assert not RUNNING & ENDED

"""The words that filters and `wait` accept besides the states. Pure."""

from __future__ import annotations

from xsft.states.model import ENDED, RUNNING, STATES, State

WORDS: tuple[str, ...] = (*STATES, "running", "active", "ended")
"""The words that `matches` accepts."""


def is_running(state: State) -> bool:
    return state in RUNNING


def is_active(state: State) -> bool:
    """Whether the run has not ended, as far as is known: an `unknown` run may still use slices."""
    return state not in ENDED


def matches(state: State, word: str) -> bool:
    """Return whether a filter's word includes this state. Raises KeyError for a word that is not in WORDS."""
    match word:
        case "running":
            return is_running(state)
        case "active":
            return is_active(state)
        case "ended":
            return not is_active(state)
        case _ if word in STATES:
            return state == word
        case _:
            raise KeyError(word)

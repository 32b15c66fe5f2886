"""The words that filters and `wait` take, beside the states themselves. Pure."""

from __future__ import annotations

from xsft.states.model import ENDED, RUNNING, STATES, State

WORDS: tuple[str, ...] = (*STATES, "running", "active", "ended")
"""What `matches` knows."""


def is_running(state: State) -> bool:
    return state in RUNNING


def is_active(state: State) -> bool:
    """Not ended, as far as is known: an unknown one may still hold slices."""
    return state not in ENDED


def matches(state: State, word: str) -> bool:
    """Whether a filter's word means this state. Raises KeyError for a word that is not in WORDS."""
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

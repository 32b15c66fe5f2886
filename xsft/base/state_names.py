"""The names of a run's states. It imports nothing of xsft, so that `xsft status --help` may import it."""

from typing import Literal, get_args

State = Literal[
    "queued",
    "starting",
    "compiling",
    "training",
    "saving",
    "serving",
    "succeeded",
    "failed",
    "cancelled",
    "evicted",
    "stalled",
    "unknown",
]
STATES: tuple[State, ...] = get_args(State)
RUNNING: frozenset[State] = frozenset({"compiling", "training", "saving", "serving"})
"""The states that `running` means in filters and in `wait`."""
ENDED: frozenset[State] = frozenset({"succeeded", "failed", "cancelled"})
WORDS: tuple[str, ...] = (*STATES, "running", "active", "ended")
"""Words that `status --state` and `wait --for` accept."""

"""The rules for the second trainer's log lines."""

from __future__ import annotations

from xsft.trainer.lines import LinePattern, Step

RULES: tuple[LinePattern, ...] = (
    ("rollout ", r"rollout (\d{1,18}), reward (\d+\.\d+)", lambda m: Step(step=int(m[1]), loss=-float(m[2]))),
)

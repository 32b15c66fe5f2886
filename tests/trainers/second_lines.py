"""What the lines of the second trainer say."""

from __future__ import annotations

from xsft.trainers.lines import LinePattern, Step

RULES: tuple[LinePattern, ...] = (
    ("rollout ", r"rollout (\d{1,18}), reward (\d+\.\d+)", lambda m: Step(step=int(m[1]), loss=-float(m[2]))),
)

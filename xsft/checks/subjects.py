"""The subjects of checks: every module of this folder that has a function `check`; and the late problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import cast

from xsft.base.acceptance import LateProblem
from xsft.base.problems import Problem
from xsft.checks.data import LATE_IDS
from xsft.checks.facts import Facts
from xsft.checks.overrides import apply_overrides
from xsft.cluster import dry_run_problems
from xsft.spec.base import Keys
from xsft.spec.resolve import Run
from xsft.trainer.trainer import trainer_of

Check = Callable[[Run, Keys, Facts], Iterable[Problem]]

FIRST_SHOWN = (
    "trainer_keys", "unsupported", "model", "special_tokens", "rounds", "data", "hub_data", "template", "schedule",
    "hosts", "lora", "mesh", "memory", "place", "image", "pathways", "environment", "secrets", "restarts", "conversion",
    "checkpoint", "serving",
)  # fmt: skip
"""Modules whose problems are shown first, in this order; the problems of other modules follow, by the module's name."""


def check_run(run: Run, facts: Facts) -> tuple[Problem, ...]:
    """Return the problems of all subjects, errors first, each once."""
    keys = trainer_of(run).trainer_keys(run)
    applied = apply_overrides(run)
    problems = (
        applied.name_as_in_file(problem) for subject in subjects() for problem in subject(applied.run, keys, facts)
    )
    return tuple(sorted(dict.fromkeys((*applied.problems, *problems)), key=lambda p: _ORDER[p.severity]))


@cache
def subjects() -> tuple[Check, ...]:
    """Return `check` of every module of this folder that has one."""
    names = {file.stem for file in Path(__file__).parent.glob("[a-z]*.py")}
    modules = (import_module(f"{__package__}.{name}") for name in (*FIRST_SHOWN, *sorted(names - {*FIRST_SHOWN})))
    return tuple(cast("Check", module.check) for module in modules if hasattr(module, "check"))


@cache
def late_ids() -> frozenset[str]:
    """Return the ids of all late problems: those of this folder, and those that dry runs on a cluster find."""
    modules = [import_module(f"{__package__}.{file.stem}") for file in Path(__file__).parent.glob("[a-z]*.py")]
    values = (value for module in (*modules, dry_run_problems) for value in vars(module).values())
    return LATE_IDS | {value.id for value in values if isinstance(value, LateProblem)}


_ORDER = {"error": 0, "warning": 1, "note": 2}

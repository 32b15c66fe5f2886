"""Names: how long a run's name may be, which names MaxText would misread, and the placeholders of templates. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import count
from typing import Literal, get_args

from xsft.base.targets import registered_launcher

ModeName = Literal["mcjax", "pathways"]
MODES: tuple[ModeName, ...] = get_args(ModeName)

JOB_MODE: ModeName = "mcjax"
"""Mode of all jobs except trainings: one Python process per host."""

StageWork = Literal["convert", "evaluate", "export", "serve"]
"""Kind of work of a run that trains nothing."""

RowOrder = Literal["reshuffled", "repeated"]
"""Order of the rows that a resumed run reads: another order than before, or the same."""

PATHWAYS_NAME_LIMIT = 22
"""JobSet's coordinator label `<w>-pathways-head-0-0.<w>` is 2n+19 characters and must be <= 63.

source: jobset@v0.10.1 pkg/webhooks/jobset_webhook.go; a 23-character name is admitted, takes quota and never starts.
"""

POD_NAME_LIMIT = 63

ATTEMPT_SUFFIX = 2
"""`-2` … `-9`: a failed run must be able to try again under the same name."""
PLACEHOLDERS = frozenset({"my-project", "my-cluster", "my-bucket"})

FIX = (
    "Put your own project, zone, cluster, bucket and registry into the workload's place or places.yaml, or use another"
    " place or --context."
)


def single_controller(mode: ModeName) -> bool:
    """Return whether one process on a head pod drives all chips, through servers with images of their own."""
    match mode:
        case "mcjax":
            return False
        case "pathways":
            return True


def jobset_limit(*, target: str, mode: ModeName, num_slices: int, hosts: int) -> int:
    """Return the maximum characters of a JobSet's name."""
    accepted = registered_launcher(target).name_limit
    match mode:
        case "pathways":
            return min(accepted, PATHWAYS_NAME_LIMIT)
        case "mcjax":
            # source: jobset@v0.10.1, measured in a real control plane (42 passes, 43 fails at 2 x 64).
            suffix = f"-slice-job-{num_slices - 1}-{hosts - 1}-abcde"
            return min(accepted, POD_NAME_LIMIT - len(suffix))


def run_name_limit(*, target: str, mode: ModeName, num_slices: int, hosts: int) -> int:
    """Return the maximum characters of a run's name, so that a second attempt's name fits too."""
    return jobset_limit(target=target, mode=mode, num_slices=num_slices, hosts=hosts) - ATTEMPT_SUFFIX


def job_name_limit(*, target: str, hosts: int = 1) -> int:
    """Return the maximum characters of the run name of a job that is not a training."""
    return run_name_limit(target=target, mode=JOB_MODE, num_slices=1, hosts=hosts)


def attempt_name(first: str, number: int) -> str:
    """Return the name of the nth attempt, of a JobSet or a folder: `first`, then `-2`, `-3`, …"""
    return first if number == 1 else f"{first}-{number}"


def stage_name(*, run_name: str, stage: str) -> str:
    """Return the run name of a stage other than the training, e.g. `tiny-convert`."""
    return f"{run_name}-{stage}"


def attempt_number(name: str, *, first: str) -> int | None:
    """Return the attempt's number, the inverse of `attempt_name`; None for a name of no attempt."""
    if name == first:
        return 1
    suffix = name.removeprefix(f"{first}-")
    number = int(suffix) if suffix.isascii() and suffix.isdecimal() and len(suffix) < 10 else 0
    return number if number > 1 and attempt_name(first, number) == name else None


def next_attempt(first: str, *, existing: Collection[str]) -> str:
    """Return the name of the first attempt that does not exist: an interrupted one keeps its folder."""
    return next(name for number in count(1) if (name := attempt_name(first, number)) not in existing)


MISREAD_NAMES = frozenset({"none", "null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"})
"""YAML words: MaxText turns `none` into None before anything else (maxtext@0.2.5 configs/pyconfig.py)."""


def list_names(names: Sequence[str], limit: int = 3) -> str:
    """Return the first names, and how many more there are."""
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown


def placeholder_in(*texts: str | None) -> str | None:
    """Return the first placeholder among the parts of names, addresses or gs:// paths; None if a user has written them
    all."""
    parts = (part for text in texts for part in re.split(r"[/:]", text or ""))
    return next((part for part in parts if part in PLACEHOLDERS), None)


def is_placeholder(name: str) -> str:
    """Return the sentence that the name is a placeholder."""
    return f"{name} is a placeholder from xsft's templates."

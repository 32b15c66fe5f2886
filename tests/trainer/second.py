"""A second trainer, to prove the seam: MaxText's RL module, which takes other keys than SFT."""

from __future__ import annotations

from xsft.catalog import releases
from xsft.catalog.releases import Release
from xsft.spec.base import Value
from xsft.spec.resolve import Run
from xsft.trainer import maxtext
from xsft.trainer.arguments import argument
from xsft.trainer.arguments import conversion_argv as conversion_argv  # noqa: PLC0414 -- the same weights

MODULE = "maxtext.trainers.post_train.rl.train_rl"
MODULES = frozenset({MODULE})
WEIGHTS = "actor"
STEP: str | None = None
OVERRIDABLE = maxtext.OVERRIDABLE


def module(release: Release) -> str:
    return MODULE


def takes(key: str, *, version: str) -> bool:
    return key.startswith("rl.") or releases.key_ok(key, version=version)


def trainer_argv(run: Run) -> tuple[str, ...]:
    return ("python3", "-m", MODULE, *(argument(key, value) for key, value in trainer_keys(run).items()))


def trainer_keys(run: Run) -> dict[str, Value]:
    """Return the keys; this trainer has no prompt to leave out of the loss."""
    shared = {key: value for key, value in maxtext.trainer_keys(run).items() if key != "sft_train_on_completion_only"}
    return {"rl.num_generations": 4, **shared}


def trainer_env(run: Run) -> dict[str, str]:
    return {**maxtext.trainer_env(run), "RL": "1"}


def container_env(run: Run) -> dict[str, str]:
    return {**maxtext.container_env(run), "RL": "1"}


def command_env(run: Run) -> tuple[tuple[str, str], ...]:
    return maxtext.command_env(run)

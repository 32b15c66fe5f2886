"""What a line of the trainer's output says, as a typed event. Pure; shared by local runs and by the logs of pods.

Only the message is matched: the prefix is `I1121 11:55:14.651 140142328048512 metric_logger.py:265] ` in the trainer
and `INFO:absl:` in the converters, and line numbers move between releases.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import inf

from msgspec import Struct


class Step(Struct, frozen=True, kw_only=True):
    """A step is done. MaxText prints it one step late; the last one after the loop has ended."""

    step: int
    """1 … steps."""
    loss: float
    """Of this step, three decimals."""
    seconds: float | None = None
    """Step 1 includes compilation."""
    tflops_per_device: float | None = None
    """Model TFLOP/s of one JAX device."""
    tokens_per_second: float | None = None
    """Per device, padding included."""
    target_tokens: int | None = None
    """Tokens the loss is taken over; with gradient accumulation those of the last micro-batch alone."""
    other_losses: bool = False
    """The loss has more terms than that of the targets: a router's, an indexer's."""

    @property
    def without_targets(self) -> bool:
        """It had no token to learn from. A loss above 0 shows that another micro-batch of the step had some.

        source: maxtext@0.2.5 trainers/post_train/hooks.py: `total_weights` is kept by step, and google-tunix@0.1.7
        sft/peft_trainer.py counts no step per micro-batch: the last one's stands.
        """
        return self.target_tokens == 0 and (self.other_losses or not 0 < self.loss < inf)


class StepLoss(Struct, frozen=True, kw_only=True):
    """Tunix's twin of `Step`: earlier, six decimals."""

    step: int
    loss: float


class Evaluating(Struct, frozen=True, kw_only=True):
    """An evaluation begins after this step; it prints nothing until its end."""

    step: int


class Evaluated(Struct, frozen=True, kw_only=True):
    step: int
    loss: float


class Saving(Struct, frozen=True, kw_only=True):
    step: int


class Saved(Struct, frozen=True, kw_only=True):
    """The checkpoint is complete on disk."""

    step: int
    path: str


class Restored(Struct, frozen=True, kw_only=True):
    """The run goes on from this step; the next step is one more."""

    step: int


class DataEnded(Struct, frozen=True, kw_only=True):
    """MaxText stops, saves, and exits 0."""

    detail: str


class ConfigError(Struct, frozen=True, kw_only=True):
    """MaxText refused a key or a value; a pydantic message goes on over the next lines (`explain.reason`)."""

    message: str


class Aborted(Struct, frozen=True, kw_only=True):
    """The loss is not a number, or infinite."""

    reason: str


class ShapePadding(Struct, frozen=True, kw_only=True):
    """The initial checkpoint is another size of model: MaxText pads or repeats its arrays and trains on."""

    arrays: int


class OrphanKilled(Struct, frozen=True, kw_only=True):
    """MaxText ended a process because it looked like a lost worker."""

    pid: int


class Phase(Struct, frozen=True, kw_only=True):
    """How far the start has come."""

    name: str


class LoopFinished(Struct, frozen=True, kw_only=True):
    seconds: float


Event = (
    Step
    | StepLoss
    | Evaluating
    | Evaluated
    | Saving
    | Saved
    | Restored
    | DataEnded
    | ConfigError
    | Aborted
    | ShapePadding
    | OrphanKilled
    | Phase
    | LoopFinished
)


def parse(line: str) -> Event | None:
    """The event in a line; None for most lines. Never raises."""
    for mark, pattern, make in _RULES:
        if mark in line and (match := re.search(pattern, line)):
            return make(match)
    return None


_N = r"([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf))"

# maxtext@0.2.5 common/metric_logger.py; `profiler …` and `live slice count` are variants of the same line, and
# `main_model_loss` and `mtp_loss` stand beside `loss`.
_STEP = rf"completed (?:profiler [a-z/]+ )?step: (?P<step>\d{{1,18}}),.*?(?<![_a-z])loss: {_N}"
_OTHER_LOSSES = ("moe_lb_loss: ", "mtp_loss: ", "indexer_loss: ")
_FIELDS = r"(?:^|, |: )(seconds|TFLOP/s/device|Tokens/s/device|total_weights): (\d{1,18}\.?\d{0,18})"


def _step(match: re.Match[str]) -> Event:
    fields = {name: float(value) for name, value in re.findall(_FIELDS, match.string)}
    weights = fields.get("total_weights")
    return Step(
        step=int(match["step"]),
        loss=float(match[2]),
        seconds=fields.get("seconds"),
        tflops_per_device=fields.get("TFLOP/s/device"),
        tokens_per_second=fields.get("Tokens/s/device"),
        target_tokens=None if weights is None else int(weights),
        other_losses=any(name in match.string for name in _OTHER_LOSSES),
    )


_Rule = tuple[str, str, Callable[[re.Match[str]], Event]]
"""A word of the line, a pattern for it, which is compiled when the word is met first, and what it means."""

_RULES: tuple[_Rule, ...] = (
    ("completed ", _STEP, _step),
    (  # google-tunix@0.1.7 sft/peft_trainer.py
        "training loss",
        rf"Train step (\d{{1,18}}) training loss: {_N}",
        lambda m: StepLoss(step=int(m[1]), loss=float(m[2])),
    ),
    (  # google-tunix@0.1.7 sft/peft_trainer.py _run_eval, also before step 1
        "Running evaluation",
        r"Running evaluation on train step (\d{1,18})",
        lambda m: Evaluating(step=int(m[1])),
    ),
    (  # maxtext@0.2.5 common/metric_logger.py; ≤ 0.2.2: `eval metrics after step: N, loss=…`
        "loss=",
        rf"(?:Completed eval after train step |eval metrics after step: )(\d{{1,18}}), loss={_N}",
        lambda m: Evaluated(step=int(m[1]), loss=float(m[2])),
    ),
    (  # orbax-checkpoint@0.12.8 checkpoint_manager.py, also `… due to preemption.`
        "Saving checkpoint",
        r"Saving checkpoint at step (\d{1,18})",
        lambda m: Saving(step=int(m[1])),
    ),
    (  # orbax-checkpoint@0.12.8 _src/path/atomicity.py
        "Finished saving checkpoint",
        r"Finished saving checkpoint \(finalized tmp dir\) to `(.*/(\d{1,18}))`",
        lambda m: Saved(step=int(m[2]), path=m[1]),
    ),
    (  # google-tunix@0.1.7 sft/checkpoint_manager.py
        "Restored params",
        r"Restored params from step: (\d{1,18}) in",
        lambda m: Restored(step=int(m[1])),
    ),
    (  # maxtext@0.2.5 trainers/post_train/sft/hooks.py
        "load_next_train_batch",
        r"Exception in load_next_train_batch: (.*)",
        lambda m: DataEnded(detail=m[1]),
    ),
    (  # maxtext@0.2.5 configs/pyconfig.py _handle_config_exception
        "MAXTEXT CONFIG ERROR",
        r"MAXTEXT CONFIG ERROR: (.*)",
        lambda m: ConfigError(message=m[1]),
    ),
    (  # maxtext@0.2.5 common/metric_logger.py
        "Aborting training",
        r"Aborting training due to (.*?)\.?$",
        lambda m: Aborted(reason=m[1]),
    ),
    (  # maxtext@0.2.5 utils/model_creation_utils.py
        "Checkpoint shape mismatches",
        r"Checkpoint shape mismatches \((\d{1,18}) arrays?\)",
        lambda m: ShapePadding(arrays=int(m[1])),
    ),
    (  # maxtext@0.2.5 input_pipeline/multihost_dataloading.py
        "orphaned multiprocessing",
        r"Terminating orphaned multiprocessing process (\d{1,18})",
        lambda m: OrphanKilled(pid=int(m[1])),
    ),
    (  # google-tunix@0.1.7 sft/peft_trainer.py
        "Train loop finished",
        r"Train loop finished in: (\d{1,18}\.?\d*) seconds",
        lambda m: LoopFinished(seconds=float(m[1])),
    ),
    # maxtext@0.2.5 utils/max_utils.py print_system_information, then common/metric_logger.py
    ("System Information", "System Information: Jax Version", lambda _: Phase(name="making the model")),
    ("number parameters", "number parameters: ", lambda _: Phase(name="compiling")),
)

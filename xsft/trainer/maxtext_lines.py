"""Rules for the output lines of MaxText's SFT, and so of Tunix and Orbax. Pure.

Only the message is matched. The prefix is `I1121 11:55:14.651 140142328048512 metric_logger.py:265] ` in the trainer
and `INFO:absl:` in the converters, and line numbers move between releases.
"""

from __future__ import annotations

import re

from xsft.trainer.lines import (
    CheckpointRestored,
    ConfigError,
    DataEnded,
    EvaluationBegun,
    EvaluationLoss,
    LinePattern,
    LoopFinished,
    PhaseStarted,
    SaveBegun,
    SaveFinished,
    ShapePadding,
    Step,
    StepLoss,
    TrainerEvent,
    TrainingAborted,
)

_N = r"([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf))"

# maxtext@0.2.5 common/metric_logger.py; `profiler …` and `live slice count` are variants of the same line, and
# `main_model_loss` and `mtp_loss` stand beside `loss`.
_STEP = rf"completed (?:profiler [a-z/]+ )?step: (?P<step>\d{{1,18}}),.*?(?<![_a-z])loss: {_N}"
_OTHER_LOSSES = ("moe_lb_loss: ", "mtp_loss: ", "indexer_loss: ")
_FIELDS = r"(?:^|, |: )(seconds|TFLOP/s/device|Tokens/s/device|total_weights): (\d{1,18}\.?\d{0,18})"


def _step_event(match: re.Match[str]) -> TrainerEvent:
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


RULES: tuple[LinePattern, ...] = (
    ("completed ", _STEP, _step_event),
    (  # google-tunix@0.1.7 sft/peft_trainer.py
        "training loss",
        rf"Train step (\d{{1,18}}) training loss: {_N}",
        lambda m: StepLoss(step=int(m[1]), loss=float(m[2])),
    ),
    (  # google-tunix@0.1.7 sft/peft_trainer.py _run_eval, also before step 1
        "Running evaluation",
        r"Running evaluation on train step (\d{1,18})",
        lambda m: EvaluationBegun(step=int(m[1])),
    ),
    (  # maxtext@0.2.5 common/metric_logger.py; ≤ 0.2.2: `eval metrics after step: N, loss=…`
        "loss=",
        rf"(?:Completed eval after train step |eval metrics after step: )(\d{{1,18}}), loss={_N}",
        lambda m: EvaluationLoss(step=int(m[1]), loss=float(m[2])),
    ),
    (  # orbax-checkpoint@0.12.8 checkpoint_manager.py, also `… due to preemption.`
        "Saving checkpoint",
        r"Saving checkpoint at step (\d{1,18})",
        lambda m: SaveBegun(step=int(m[1])),
    ),
    (  # orbax-checkpoint@0.12.8 _src/path/atomicity.py
        "Finished saving checkpoint",
        r"Finished saving checkpoint \(finalized tmp dir\) to `(.*/(\d{1,18}))`",
        lambda m: SaveFinished(step=int(m[2]), path=m[1]),
    ),
    (  # google-tunix@0.1.7 sft/checkpoint_manager.py
        "Restored params",
        r"Restored params from step: (\d{1,18}) in",
        lambda m: CheckpointRestored(step=int(m[1])),
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
        lambda m: TrainingAborted(reason=m[1]),
    ),
    (  # maxtext@0.2.5 utils/model_creation_utils.py
        "Checkpoint shape mismatches",
        r"Checkpoint shape mismatches \((\d{1,18}) arrays?\)",
        lambda m: ShapePadding(arrays=int(m[1])),
    ),
    (  # google-tunix@0.1.7 sft/peft_trainer.py
        "Train loop finished",
        r"Train loop finished in: (\d{1,18}\.?\d*) seconds",
        lambda m: LoopFinished(seconds=float(m[1])),
    ),
    # maxtext@0.2.5 utils/max_utils.py print_system_information, then common/metric_logger.py
    ("System Information", "System Information: Jax Version", lambda _: PhaseStarted(name="making the model")),
    ("number parameters", "number parameters: ", lambda _: PhaseStarted(name="compiling")),
)

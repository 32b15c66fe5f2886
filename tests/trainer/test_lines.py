from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.trainer.lines import (
    CheckpointRestored,
    ConfigError,
    DataEnded,
    EvaluationBegun,
    EvaluationLoss,
    LoopFinished,
    PhaseStarted,
    SaveBegun,
    SaveFinished,
    ShapePadding,
    Step,
    StepLoss,
    TrainerEvent,
    TrainingAborted,
    trainer_event,
)

ABSL = "I1120 07:21:57.547289 139910299417472 metric_logger.py:265] "

# Printed by MaxText 0.2.5 with google-tunix 0.1.7 on a CPU, but for the lines marked `code`: read in its source.
LINES: list[tuple[str, TrainerEvent]] = [
    (
        (
            "completed step: 2, seconds: 0.217, TFLOP/s/device: 0.001, Tokens/s/device: 1181.694, total_weights: 84, "
            "loss: 6.222, lm_loss: 0.000, perplexity: 631.719"
        ),
        Step(step=2, loss=6.222, seconds=0.217, tflops_per_device=0.001, tokens_per_second=1181.694, target_tokens=84),
    ),
    (  # code: 0.2.3 and newer with elastic slices, and a mixture of experts with multi-token prediction
        (
            "completed step: 7, seconds: 1.5, live slice count: 2, TFLOP/s/device: 0.1, Tokens/s/device: 12.0, "
            "total_weights: 84, main_model_loss: 9.5, mtp_loss: 8.5, loss: 3.25, lm_loss: 0.000, perplexity: 1.0"
        ),
        Step(
            step=7,
            loss=3.25,
            seconds=1.5,
            tflops_per_device=0.1,
            tokens_per_second=12.0,
            target_tokens=84,
            other_losses=True,
        ),
    ),
    (  # with every target token cut off
        (
            "completed step: 3, seconds: 0.028, TFLOP/s/device: 0.007, Tokens/s/device: 9155.785, total_weights: 0, "
            "loss: 0.000, lm_loss: 0.000, perplexity: 1.000"
        ),
        Step(step=3, loss=0.0, seconds=0.028, tflops_per_device=0.007, tokens_per_second=9155.785, target_tokens=0),
    ),
    (  # code
        (
            "completed profiler activation/deactivation step: 3, seconds: 0.2, TFLOP/s/device: 0.1, "
            "Tokens/s/device: 5.0, total_weights: 1, loss: nan, lm_loss: 0.000, perplexity: nan"
        ),
        Step(step=3, loss=float("nan"), seconds=0.2, tflops_per_device=0.1, tokens_per_second=5.0, target_tokens=1),
    ),
    (
        "Train step 2 training loss: 6.222081  - training perplexity: 503.750305",
        StepLoss(step=2, loss=6.222081),
    ),
    (
        "Completed eval after train step 0, loss=6.630, perplexity=757.432, total_weights=168.0, avg_z_loss=0.000",
        EvaluationLoss(step=0, loss=6.63),
    ),
    ("I1120 07:21:55.1 1 peft_trainer.py:802] Running evaluation on train step 500.", EvaluationBegun(step=500)),
    (
        "eval metrics after step: 9, loss=1.250, total_weights=168.0",
        EvaluationLoss(step=9, loss=1.25),
    ),  # code, <= 0.2.2
    ("[process=0] Saving checkpoint at step 1", SaveBegun(step=1)),
    ("[process=0] Saving checkpoint at step 402 due to preemption.", SaveBegun(step=402)),
    (
        "[process=0][thread=async_save] Finished saving checkpoint (finalized tmp dir) to `/o/tiny1/checkpoints/1`.",
        SaveFinished(step=1, path="/o/tiny1/checkpoints/1"),
    ),
    ("Restored params from step: 6 in 0.094 seconds", CheckpointRestored(step=6)),
    (
        "Exception in load_next_train_batch: You may have run out of training data.",
        DataEnded(detail="You may have run out of training data."),
    ),
    ("MAXTEXT CONFIG ERROR: 'stepz' not in 'emb_dim'", ConfigError(message="'stepz' not in 'emb_dim'")),
    ("Aborting training due to NaN loss.", TrainingAborted(reason="NaN loss")),  # code
    (
        (
            "Checkpoint shape mismatches (3 arrays): loading sharded at stored shape and padding each local "
            "shard after restore."
        ),
        ShapePadding(arrays=3),
    ),
    ("Train loop finished in: 2.2828 seconds", LoopFinished(seconds=2.2828)),
    ("System Information: Jax Version: 0.11.0", PhaseStarted(name="making the model")),
    ("number parameters: 0.000 billion", PhaseStarted(name="compiling")),
]


@pytest.mark.parametrize("prefix", ["", ABSL, "INFO:absl:"])
def test_event_depends_on_the_message_and_not_on_its_prefix(prefix: str) -> None:
    for message, event in LINES:
        assert repr(trainer_event(prefix + message)) == repr(event), message  # repr: nan equals nan


def test_every_event_type_has_an_example_line() -> None:
    assert {type(event) for _, event in LINES} == set(TrainerEvent.__args__)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Per train step:",
        "[process=0] [async] Finished save (blocking + background) in 0.20 seconds @ /o/checkpoints/20",
        "Config param steps: 6",
        "Config param eval_interval: -1",
        "Train step 0 eval loss: 6.629933 - eval perplexity: 757.431641",
        "completed step: 3",
    ],
)
def test_other_lines_give_no_event(line: str) -> None:
    assert trainer_event(line) is None


@pytest.mark.parametrize(
    ("line", "without"),
    [
        ("completed step: 3, seconds: 0.0, total_weights: 0, loss: 0.000, lm_loss: 0.000", True),
        ("completed step: 3, seconds: 0.0, total_weights: 0.0, loss: 0.000, lm_loss: 0.000", True),
        ("completed step: 3, seconds: 0.0, total_weights: 0, loss: nan, lm_loss: 0.000", True),
        ("completed step: 3, seconds: 0.0, total_weights: 0, loss: 0.010, lm_loss: 0.000, moe_lb_loss: 0.010000", True),
        # gradient accumulation: the last micro-batch had none, another one had some
        ("completed step: 3, seconds: 0.0, total_weights: 0, loss: 2.500, lm_loss: 0.000", False),
        ("completed step: 3, seconds: 0.0, total_weights: 1, loss: 0.000, lm_loss: 0.000", False),
        ("completed step: 3, seconds: 0.0, loss: 0.000, lm_loss: 0.000", False),
    ],
    ids=[
        "no targets",
        "weights as float",
        "loss not finite",
        "router loss only",
        "targets in another micro-batch",
        "one target",
        "number of targets not printed",
    ],
)
def test_a_step_without_targets_is_distinguished_from_a_loss_of_zero(line: str, without: bool) -> None:
    event = trainer_event(line)
    assert isinstance(event, Step)
    assert event.without_targets is without


MARKS = (
    "completed step: 1, loss: ",
    "Train step 1 training loss: ",
    "Completed eval after train step 1, loss=",
    "seconds: ",
)


@given(st.lists(st.one_of(st.sampled_from(MARKS), st.text("0123456789.eE+-naif, "), st.text())).map("".join))
def test_trainer_event_accepts_any_line(line: str) -> None:
    event = trainer_event(line)
    assert event is None or isinstance(event, TrainerEvent)

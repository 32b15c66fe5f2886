"""Log lines folded to progress: real sequences of MaxText 0.2.5 with google-tunix 0.1.7, and properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.trainer.progress import LoggedLine, Progress, parse_logged_line, progress_of, sortable

ABSL = "I1120 07:21:46.705155 139910299417472 max_utils.py:835] "
BEGIN = f"{ABSL}System Information: Jax Version: 0.11.0"
MODEL = f"{ABSL}number parameters: 8.030 billion"
LOOP_END = f"{ABSL}Train loop finished in: 2.2828 seconds"
NOW = "2026-11-21T12:00:00Z"


def done(step: int, *, loss: float = 2.0, seconds: float = 0.5, tflops: float = 400.0, targets: int = 84) -> str:
    return (
        f"{ABSL}completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: {tflops:.3f}, "
        f"Tokens/s/device: 1181.694, total_weights: {targets}, loss: {loss:.3f}, lm_loss: 0.000, perplexity: 631.719"
    )


def exact(step: int, loss: float) -> str:
    return f"{ABSL}Train step {step} training loss: {loss:.6f}  - training perplexity: 503.750305"


def saving(step: int) -> str:
    return f"{ABSL}[process=0] Saving checkpoint at step {step}"


def saved(step: int) -> str:
    return f"{ABSL}[process=0][thread=x] Finished saving checkpoint (finalized tmp dir) to `/o/r/checkpoints/{step}`."


def evaluating(step: int) -> str:
    return f"{ABSL}Running evaluation on train step {step}."


def evaluated(step: int) -> str:
    return f"{ABSL}Completed eval after train step {step}, loss=6.630, perplexity=757.432, total_weights=168.0"


def fold(*lines: str, from_start: bool = True) -> Progress:
    return progress_of([LoggedLine(text=line) for line in lines], read_at=NOW, from_start=from_start)


@pytest.mark.parametrize(
    ("lines", "phase"),
    [
        ((), "starting"),
        (("XPK Start: today",), "starting"),
        ((BEGIN,), "starting"),
        ((BEGIN, MODEL), "compiling"),
        ((BEGIN, MODEL, done(1)), "training"),
        ((BEGIN, MODEL, exact(1, 6.6), saving(1)), "saving"),
        ((BEGIN, MODEL, exact(1, 6.6), saving(1), saved(1)), "training"),
        ((BEGIN, MODEL, done(1), saving(1), exact(2, 6.5)), "training"),
        ((BEGIN, MODEL, done(5), LOOP_END), "saving"),
        ((BEGIN, MODEL, done(5), saving(6), LOOP_END, done(6)), "saving"),
        ((BEGIN, MODEL, done(5), saving(6), LOOP_END, done(6), saved(6)), "ended"),
        ((BEGIN, MODEL, LOOP_END), "ended"),
        ((BEGIN, MODEL, done(9), BEGIN), "starting"),
        ((BEGIN, evaluating(0)), "evaluating"),
        ((BEGIN, evaluating(0), evaluated(0), MODEL), "compiling"),
        ((BEGIN, MODEL, done(4), evaluating(5)), "evaluating"),
        ((BEGIN, MODEL, done(4), evaluating(5), done(5)), "evaluating"),
        ((BEGIN, MODEL, done(4), saving(5), evaluating(5), saved(5)), "evaluating"),
        ((BEGIN, MODEL, done(4), evaluating(5), done(5), evaluated(5)), "training"),
        ((BEGIN, MODEL, done(4), evaluating(5), done(6)), "training"),
        ((BEGIN, MODEL, done(4), evaluating(5), BEGIN), "starting"),
        ((BEGIN, MODEL, done(4), evaluating(5), LOOP_END, saved(5)), "ended"),
    ],
    ids=[
        "nothing",
        "wrapper",
        "imports",
        "model built",
        "step",
        "save begun",
        "save ended",
        "step while saving",
        "loop ended",
        "last step saving",
        "last step saved",
        "ended without a step",
        "restarted",
        "evaluation begun",
        "compiling after evaluation",
        "evaluation at a step",
        "evaluation prints its step",
        "saved during evaluation",
        "evaluation ended",
        "step after evaluation",
        "restarted in evaluation",
        "ended in evaluation",
    ],
)
def test_phase_follows_from_the_lines(lines: tuple[str, ...], phase: str) -> None:
    assert fold(*lines).phase == phase


def test_log_excerpt_without_events_has_no_phase() -> None:
    assert fold("Config param steps: 10", from_start=False).phase is None
    assert fold(done(7), from_start=False).phase == "training"


def test_tunixs_exact_loss_is_used_if_logged() -> None:
    folded = fold(BEGIN, MODEL, exact(2, 6.222081), done(2, loss=6.222))
    assert (folded.step, folded.loss) == (2, 6.222081)
    assert fold(done(2, loss=6.222)).loss == 6.222


def test_step_time_excludes_steps_that_compiled() -> None:
    first = (BEGIN, MODEL, done(1, seconds=90), done(2, seconds=4), done(3, seconds=6), done(4, seconds=5))
    folded = fold(*first)
    assert (folded.step_seconds, folded.tflops_per_device, folded.tokens_per_second) == (5, 400, 1181.694)
    restarted = fold(*first, BEGIN, f"{ABSL}Restored params from step: 3 in 0.1 seconds", MODEL, done(4, seconds=80))
    assert restarted.step_seconds == 5
    assert fold(BEGIN, MODEL, done(1, seconds=90)).step_seconds is None


def test_a_restart_forgets_steps_after_the_checkpoint() -> None:
    restored = f"{ABSL}Restored params from step: 6 in 0.094 seconds"
    before = (BEGIN, MODEL, done(6), saving(6), saved(6), done(7), done(8))
    assert fold(*before).step == 8
    folded = fold(*before, BEGIN, restored)
    assert (folded.step, folded.resumed_from, folded.saved_step, folded.phase) == (6, 6, 6, "starting")
    assert folded.loss is None
    assert fold(*before, BEGIN, restored, MODEL, done(7)).step == 7


def test_a_termination_message_belongs_to_its_process() -> None:
    ended = (BEGIN, MODEL, done(3), f"{ABSL}Exception in load_next_train_batch: You may have run out of training data.")
    assert fold(*ended).data_ended
    assert not fold(*ended, BEGIN).data_ended
    nan = (*ended, f"{ABSL}Aborting training due to NaN loss.")
    assert fold(*nan).aborted == "NaN loss"
    assert fold(*nan, BEGIN).aborted is None


@pytest.mark.parametrize(
    "line",
    [
        "completed step: 4, seconds: 0.217, TFLOP/s/device: 0.5, Tokens/s/device: 1.5, total_weights: 84, loss: 3.500",
        (
            "[Rampup Batch Size Phase], completed step: 4, seconds: 0.2, total_weights: 84, loss: 3.500,"
            " lm_loss: 0.000, perplexity: 1.0"
        ),
        (
            f"{ABSL}completed profiler activation/deactivation step: 4, total_weights: 84, loss: 3.500, lm_loss: 0.000,"
            " perplexity: 1.0"
        ),
        (
            f"{ABSL}completed step: 4, seconds: 0.2, live slice count: 2, TFLOP/s/device: 0.5, Tokens/s/device: 1.0,"
            " total_weights: 84, loss: 3.500, lm_loss: 0.000, perplexity: 1.0, moe_lb_loss: 0.010000,"
            " main_model_loss: 3.000, mtp_loss: 0.500"
        ),
    ],
    ids=["up to 0.2.2", "rampup", "profiler", "0.2.5"],
)
def test_step_lines_of_every_layout_are_read(line: str) -> None:
    """source: maxtext@0.2.5 common/metric_logger.py _log_training_metrics; the first is of <= 0.2.2, without prefix."""
    folded = fold(line, from_start=False)
    assert (folded.step, folded.loss, folded.phase) == (4, 3.5, "training")


def test_evaluation_lines_are_no_steps() -> None:
    folded = fold(
        f"{ABSL}Completed eval after train step 9, loss=1.250, perplexity=3.5, total_weights=168.0, avg_z_loss=0.000",
        f"{ABSL}Completed eval step: 3, seconds: 0.2, running loss=1.0, running perplexity=2.7",
        f"{ABSL}Train step 9 eval loss: 6.629933 - eval perplexity: 757.431641",
        "eval metrics after step: 9, loss=1.250, total_weights=168.0",
        from_start=False,
    )
    assert folded.step is None


def test_nan_loss_is_reported_as_nan() -> None:
    line = done(3).replace("loss: 2.000", "loss: nan")
    loss = fold(line).loss
    assert loss is not None
    assert math.isnan(loss)


def test_times_come_from_the_log_api() -> None:
    line = parse_logged_line(f"2026-11-21T10:00:00.123456789Z {done(3)}")
    assert (line.at, line.text) == ("2026-11-21T10:00:00.123456789Z", done(3))
    assert parse_logged_line("no time here").at == ""
    assert parse_logged_line("2026-11-21T10:00:00Z ").text == ""
    noise = parse_logged_line("2026-11-21T10:05:00Z Config param steps: 10")
    assert progress_of([line, noise], read_at=NOW).said_at == line.at


@given(st.permutations(range(6)))
def test_lines_with_times_may_come_in_any_order(order: list[int]) -> None:
    lines = [BEGIN, MODEL, done(1, seconds=9), done(2), saving(2), saved(2)]
    timed = [LoggedLine(text=text, at=f"2026-11-21T10:00:{i:02}.{'5' * (i + 1)}Z") for i, text in enumerate(lines)]
    shuffled = [timed[i] for i in order]
    assert progress_of(shuffled, read_at=NOW) == progress_of(timed, read_at=NOW)


@given(st.integers(0, 999_999_999), st.integers(0, 999_999_999))
def test_times_sort_with_any_number_of_decimals(a: int, b: int) -> None:
    """Go leaves out zeros at the end, and the whole fraction where it is nothing."""
    texts = [f"2026-11-21T10:00:00.{n:09}".rstrip("0").rstrip(".") + "Z" for n in (a, b)]
    assert (sortable(texts[0]) < sortable(texts[1])) == (a < b)


@given(st.lists(st.text(max_size=60) | st.sampled_from([BEGIN, MODEL, LOOP_END, done(3), exact(4, 1.5), saving(3)])))
def test_any_lines_fold_to_steps_that_were_in_the_log(lines: list[str]) -> None:
    folded = fold(*lines)
    assert folded.step in (None, 3, 4)
    assert (folded.loss is None) == (folded.step is None)


def worth(progress: Progress) -> tuple[int, int, int]:
    return progress.no_target_steps, progress.not_finite_steps, progress.zero_loss_steps


def test_steps_without_effect_are_counted() -> None:
    assert worth(fold(BEGIN, MODEL, *(done(n, loss=0.0, targets=0) for n in range(1, 9)), LOOP_END)) == (8, 0, 0)
    assert worth(fold(*(done(n, loss=math.nan) for n in (5, 6, 7)), from_start=False)) == (0, 3, 0)
    assert worth(fold(*(done(n, loss=0.0) for n in (5, 6, 7)), from_start=False)) == (0, 0, 3)
    assert worth(fold(done(1), done(2), done(3))) == (0, 0, 0)


def test_a_new_process_counts_its_own_steps() -> None:
    before = (BEGIN, MODEL, *(done(n, loss=0.0, targets=0) for n in range(1, 5)))
    assert worth(fold(*before, BEGIN, MODEL, done(4), done(5))) == (0, 0, 0)

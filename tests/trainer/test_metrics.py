"""MaxText's metrics files and their pitfalls (study: maxtext §9; maxtext@0.2.5 common/metric_logger.py)."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from xsft.trainer.metrics import losses_of, metric_rows, newest_files, progress_of_metrics

NOW = "2026-11-21T12:00:00Z"


def row(step: int, *, loss: float = 2.5, seconds: float = 0.5, **more: float) -> str:
    scalars = {
        "learning/loss": loss,
        **{f"learning/{name}": value for name, value in more.items()},
        "perf/step_time_seconds": seconds,
        "perf/per_device_tflops": 100.0,
        "perf/per_device_tflops_per_sec": 200.0,
        "perf/per_device_tokens_per_sec": 4096.0,
    }
    return json.dumps({**scalars, "step": float(step), "run_name": "r"})


def untimed(names: list[str]) -> dict[str, float | None]:
    return dict.fromkeys(names)


def evaluated(step: int) -> str:
    return json.dumps({"eval/avg_loss": 1.0, "eval/total_weights": 84.0, "step": float(step), "run_name": "r"})


def test_progress_comes_from_the_last_training_row() -> None:
    text = "\n".join([row(1, seconds=60), row(2, seconds=0.4), row(3, loss=2.25, seconds=0.6), evaluated(3)])
    progress = progress_of_metrics(metric_rows(text), read_at=NOW)
    assert progress is not None
    assert (progress.source, progress.step, progress.loss, progress.step_seconds) == ("metrics", 3, 2.25, 0.5)
    assert (progress.tflops_per_device, progress.tokens_per_second, progress.said_at) == (200.0, 4096.0, None)


def test_steps_without_effect_are_counted() -> None:
    def counted(*rows: str) -> tuple[int, int, int]:
        progress = progress_of_metrics(metric_rows("\n".join(rows)), read_at=NOW)
        assert progress is not None
        return progress.no_target_steps, progress.not_finite_steps, progress.zero_loss_steps

    assert counted(*(row(n, loss=0.0, total_weights=0.0) for n in (1, 2, 3))) == (3, 0, 0)
    assert counted(*(row(n, loss=0.1, total_weights=0.0, moe_lb_loss=0.1) for n in (1, 2, 3))) == (3, 0, 0)
    assert counted(*(row(n, loss=0.1, total_weights=0.0) for n in (1, 2, 3))) == (0, 0, 0)
    assert counted(*(row(n, loss=float("nan"), total_weights=84.0) for n in (1, 2, 3))) == (0, 3, 0)
    assert counted(*(row(n, loss=0.0, total_weights=84.0) for n in (1, 2, 3))) == (0, 0, 3)
    assert counted(*(row(n, loss=0.0, total_weights=float("inf")) for n in (1, 2, 3))) == (0, 0, 3)


def test_evaluation_rows_are_no_steps() -> None:
    assert metric_rows("\n".join([evaluated(0), evaluated(999)])) == ()
    assert progress_of_metrics((), read_at=NOW) is None


def test_file_rewritten_by_an_evaluation_does_not_hide_the_file_before() -> None:
    names = ["metrics_step_000900_to_step_000999.txt", "metrics_step_000800_to_step_000899.txt", "config.yml"]
    names += ["metrics_step_000000_to_step_000099.txt"]
    assert newest_files(untimed(names), at_most=2) == (
        "metrics_step_000800_to_step_000899.txt",
        "metrics_step_000900_to_step_000999.txt",
    )
    rows = [*metric_rows(row(899)), *metric_rows(evaluated(999))]
    progress = progress_of_metrics(rows, read_at=NOW)
    assert progress is not None
    assert progress.step == 899


def test_file_names_sort_by_their_step_numbers() -> None:
    names = ["metrics_step_1000000_to_step_1000099.txt", "metrics_step_999900_to_step_999999.txt"]
    assert newest_files(untimed(names), at_most=1) == ("metrics_step_1000000_to_step_1000099.txt",)
    odd = ["metrics_step_x_to_step_y.txt", "metrics_step_000001_to_step_000002.txt.tmp"]
    assert newest_files(untimed(odd), at_most=2) == ()


EARLIER, LATER = "metrics_step_000100_to_step_000199.txt", "metrics_step_000000_to_step_000099.txt"


def test_newest_file_is_the_last_written_even_with_lower_steps() -> None:
    """A process went on from step 50; what the one before had written beyond is still there."""
    written = {EARLIER: 100.0, LATER: 200.0, "metrics_step_000200_to_step_000299.txt": 150.0}
    assert newest_files(written, at_most=2) == ("metrics_step_000200_to_step_000299.txt", LATER)
    assert newest_files(written, at_most=9) == (EARLIER, "metrics_step_000200_to_step_000299.txt", LATER)
    rows = [*metric_rows(row(299)), *metric_rows("\n".join(row(n) for n in range(50, 100)))]
    progress = progress_of_metrics(rows, read_at=NOW)
    assert progress is not None
    assert progress.step == 99


def test_newest_files_sort_by_steps_if_a_time_is_missing() -> None:
    assert newest_files({EARLIER: 100.0, LATER: None}, at_most=2) == (LATER, EARLIER)
    assert newest_files({EARLIER: 7.0, LATER: 7.0}, at_most=2) == (LATER, EARLIER), "of one moment"


@given(st.dictionaries(st.sampled_from((EARLIER, LATER, "config.yml", "x")), st.none() | st.floats(allow_nan=False)))
def test_newest_files_returns_exactly_the_given_files(written: dict[str, float | None]) -> None:
    assert set(newest_files(written, at_most=2)) == {EARLIER, LATER} & set(written)


def test_repeated_step_takes_the_loss_of_its_later_row() -> None:
    rows = metric_rows("\n".join([row(2, loss=9.0), row(2, loss=3.0)]))
    assert losses_of(rows) == {2: 3.0}


def test_progress_after_a_resume_is_the_last_row_not_the_highest_step() -> None:
    """Steps 1 to 6, killed, resumed from the checkpoint of step 2: at step 4 now, not at 6."""
    rows = metric_rows("\n".join([*(row(step, loss=9.0) for step in range(1, 7)), row(3, loss=3.0), row(4, loss=2.0)]))
    progress = progress_of_metrics(rows, read_at=NOW)
    assert progress is not None
    assert (progress.step, progress.loss) == (4, 2.0)
    assert losses_of(rows) == {1: 9.0, 2: 9.0, 3: 3.0, 4: 2.0}


@given(st.lists(st.integers(0, 20), min_size=1))
def test_progress_is_always_the_last_row(steps: list[int]) -> None:
    rows = metric_rows("\n".join(row(step, loss=float(n)) for n, step in enumerate(steps)))
    progress = progress_of_metrics(rows, read_at=NOW)
    assert progress is not None
    assert (progress.step, progress.loss) == (steps[-1], len(steps) - 1.0)
    assert max(losses_of(rows)) == steps[-1]


def test_torn_line_is_skipped_and_nan_row_is_kept() -> None:
    rows = metric_rows(f'{row(1)}\n{{"step": 2.0, "learning/loss": NaN}}\n{row(3)[:40]}')
    assert [metric_row.step for metric_row in rows] == [1, 2]


@given(
    st.lists(
        st.text()
        | st.builds(
            json.dumps,
            st.dictionaries(
                st.sampled_from(["step", "learning/loss"]),
                st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
            ),
        )
    )
)
def test_metric_rows_accepts_any_lines(lines: list[str]) -> None:
    for metric_row in metric_rows("\n".join(lines)):
        assert metric_row.step >= 0

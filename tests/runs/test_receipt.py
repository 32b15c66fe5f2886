"""Time of a run by use, from lines of MaxText 0.2.5 with google-tunix 0.1.7 at invented times."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.test_progress import BEGIN, LOOP_END, MODEL, done, evaluated, evaluating, exact, saved, saving
from xsft.records.record import Attempt, Receipt
from xsft.runs.receipt import SPENT, ReceiptFold, whole_receipt
from xsft.trainer.lines import trainer_event


def receipt(*lines: tuple[float, str], until: float) -> Receipt:
    fold = ReceiptFold(at=0.0)
    for line_at, line in lines:
        fold.take(trainer_event(line), at=line_at)
    return fold.receipt(until=until)


def spent(run_receipt: Receipt) -> dict[str, float]:
    return {state: round(seconds, 1) for state, seconds in run_receipt.seconds.items() if round(seconds, 1)}


START = ((20.0, BEGIN), (30.0, MODEL))
STEPS = tuple((92.0 + 2 * step, exact(step, 6.0)) for step in range(1, 5))
"""Step 1 compiles for 62 s; each takes 2 s."""


def test_receipt_divides_the_time_of_a_whole_run() -> None:
    run_receipt = receipt(*START, *STEPS, (100.0, saving(4)), (101.0, LOOP_END), (109.0, saved(4)), until=110.0)
    assert spent(run_receipt) == {"starting": 30.0, "compiling": 62.0, "training": 8.0, "saving": 10.0}
    assert (run_receipt.steps, run_receipt.held_s) == (4, 110.0)


def test_save_time_is_the_delay_of_the_next_step() -> None:
    run_receipt = receipt(*START, *STEPS, (100.0, saving(4)), (105.0, exact(5, 6.0)), until=105.0)
    assert spent(run_receipt) == {"starting": 30.0, "compiling": 62.0, "training": 10.0, "saving": 3.0}


def test_evaluation_time_is_not_training() -> None:
    run_receipt = receipt(
        *START, *STEPS, (100.0, evaluating(4)), (130.0, evaluated(4)), (132.0, exact(5, 6.0)), until=132.0
    )
    assert spent(run_receipt) == {"starting": 30.0, "compiling": 62.0, "training": 10.0, "evaluating": 30.0}


def test_steps_that_a_restarted_process_repeats_are_lost() -> None:
    again = ((160.0, BEGIN), (165.0, MODEL), (175.0, exact(3, 6.0)), (177.0, exact(4, 6.0)), (179.0, exact(5, 6.0)))
    run_receipt = receipt(*START, *STEPS, *again, until=179.0)
    assert spent(run_receipt) == {"starting": 35.0, "compiling": 70.0, "training": 10.0, "lost": 64.0}
    assert run_receipt.steps == 5


def test_tokens_and_tflops_come_from_the_line_of_maxtext() -> None:
    lines = (*START, (94.0, exact(1, 2.0)), (96.0, exact(2, 2.0)), (96.0, done(1)), (98.0, done(2, targets=80)))
    run_receipt = receipt(*lines, until=98.0)
    assert (run_receipt.tokens_per_device, run_receipt.target_tokens) == (2 * round(0.5 * 1181.694), 164)
    assert run_receipt.tflops_per_device == 400.0


def test_release_without_tunix_lines_is_read_from_lines_of_maxtext() -> None:
    run_receipt = receipt(*START, (94.0, done(1)), (96.0, done(2)), (98.0, done(3)), until=98.0)
    assert spent(run_receipt) == {"starting": 30.0, "compiling": 62.0, "training": 6.0}


@given(st.lists(st.tuples(st.floats(0, 50), st.sampled_from((BEGIN, MODEL, exact(1, 2.0), exact(2, 2.0), done(2),
       saving(2), saved(2), evaluating(2), evaluated(2), LOOP_END)))))  # fmt: skip
def test_every_second_is_counted_once(lines: list[tuple[float, str]]) -> None:
    ordered = sorted(lines, key=lambda line: line[0])
    assert abs(sum(receipt(*ordered, until=60.0).seconds.values()) - 60.0) < 1e-6


def attempt(*, resumed_from: int | None, last_step: int, steps: int, training: float = 0.0) -> Attempt:
    spent = Receipt(seconds={**dict.fromkeys(SPENT, 0.0), "starting": 5.0, "training": training}, steps=steps)
    spent = replace(spent, tokens_per_device=10.0 * steps, target_tokens=2 * steps)
    return Attempt(number=1, resumed_from=resumed_from, last_step=last_step, receipt=spent)


def test_whole_receipt_counts_each_step_once() -> None:
    killed = attempt(resumed_from=None, last_step=8, steps=8, training=80.0)
    resumed = attempt(resumed_from=6, last_step=10, steps=4, training=40.0)
    run_receipt = whole_receipt((killed, resumed))
    assert run_receipt is not None
    assert spent(run_receipt) == {"starting": 10.0, "training": 100.0, "lost": 20.0}
    assert (run_receipt.steps, run_receipt.tokens_per_device, run_receipt.target_tokens) == (10, 100.0, 20)


def test_a_run_with_an_attempt_of_an_older_xsft_has_no_receipt() -> None:
    known_attempt = attempt(resumed_from=None, last_step=8, steps=8)
    assert whole_receipt((replace(known_attempt, receipt=None), known_attempt)) is None
    assert whole_receipt(()) is None

from __future__ import annotations

import json
from pathlib import Path

from tests.observations import jobset, local, observed
from tests.replacing import replace
from tests.trainer.test_metrics_event_file import event
from xsft.base.errors import Unreachable
from xsft.cluster.observation import Observation
from xsft.machine.objects import LocalObjects
from xsft.records.document import to_json
from xsft.records.record import Attempt, Record
from xsft.records.record_files import RecordStore
from xsft.runs.compare import LossCurve, read_curve


def store(tmp_path: Path) -> RecordStore:
    return RecordStore(state=tmp_path / "state", objects_at=lambda _path: LocalObjects())


def lines(*texts: str):  # type: ignore[no-untyped-def]
    return lambda _seen: texts


def silent(_seen: Observation) -> tuple[str, ...]:
    raise Unreachable("the cluster does not answer")


def metrics(folder: Path, first: int, last: int, losses: dict[int, float]) -> None:
    rows = [{"step": float(step), "learning/loss": loss} for step, loss in losses.items()]
    rows.append({"step": float(last), "evaluation/loss": 1.0})
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"metrics_step_{first:06}_to_step_{last:06}.txt"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def completed(step: int, loss: float) -> str:
    return f"completed step: {step}, seconds: 0.2, TFLOP/s/device: 1.0, total_weights: 84, loss: {loss:.3f}"


def test_read_curve_joins_metrics_and_log_and_prefers_the_log(tmp_path: Path) -> None:
    metrics(tmp_path / "gemma" / "metrics", 0, 1, {1: 6.6})
    metrics(tmp_path / "gemma" / "metrics", 2, 3, {2: 6.4, 3: 6.2})
    log_lines = ("noise", "Train step 3 training loss: 6.123456", completed(3, 6.123), completed(4, 6.0))
    loss_curve = read_curve(observed(), output=str(tmp_path), store=store(tmp_path), lines=lines(*log_lines))
    assert loss_curve == LossCurve(
        run_name="gemma",
        points={1: 6.6, 2: 6.4, 3: 6.123456, 4: 6.0},
        sources=("metrics", "log"),
        output=str(tmp_path),
    )


def test_an_unreadable_source_does_not_hide_another(tmp_path: Path) -> None:
    metrics(tmp_path / "gemma" / "metrics", 0, 1, {1: 6.6})
    loss_curve = read_curve(observed(), output=str(tmp_path), store=store(tmp_path), lines=silent)
    assert loss_curve.points == {1: 6.6}
    assert loss_curve.problems == ("log: the cluster does not answer",)


def test_read_curve_is_empty_before_the_first_step(tmp_path: Path) -> None:
    for output in (str(tmp_path), None):
        loss_curve = read_curve(observed(), output=output, store=store(tmp_path), lines=lines())
        assert (loss_curve.points, loss_curve.sources, loss_curve.problems) == ({}, (), ())


def test_the_settings_of_a_damaged_record_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "gemma" / "xsft").mkdir(parents=True)
    (tmp_path / "gemma" / "xsft" / "run.json").write_text("{")
    assert not read_curve(observed(), output=str(tmp_path), store=store(tmp_path), lines=lines()).spec


def test_repeated_steps_of_a_resumed_run_replace_the_earlier_ones(tmp_path: Path) -> None:
    log_lines = (
        completed(1, 6.0),
        completed(2, 5.0),
        completed(3, 4.0),
        "Restored params from step: 1 in 2 s",
        completed(2, 5.5),
    )
    loss_curve = read_curve(observed(), output=None, store=store(tmp_path), lines=lines(*log_lines))
    assert loss_curve.points == {1: 6.0, 2: 5.5}
    assert loss_curve.resumed == {1: "repeated"}


def test_resumed_steps_of_earlier_attempts_come_from_the_records(tmp_path: Path) -> None:
    """A log contains the latest start only."""
    folder = tmp_path / "gemma" / "xsft"
    folder.mkdir(parents=True)
    for number, (step, order) in enumerate(((None, None), (40, "reshuffled")), start=1):
        attempt = Attempt(number=number, resumed_from=step, resumed_order=order)  # type: ignore[arg-type]
        record = Record(run_name="gemma", target="xpk", attempts=(attempt,))
        (folder / f"attempt-{number}.json").write_text(to_json(record))
    restarted = replace(observed(), jobset=jobset("gemma-2", run_name="gemma", restarts=1, data_on_restart="reshuffle"))
    log_lines = ("Restored params from step: 80 in 2 s", completed(81, 5.5))
    loss_curve = read_curve(restarted, output=str(tmp_path), store=store(tmp_path), lines=lines(*log_lines))
    assert loss_curve.resumed == {40: "reshuffled", 80: "reshuffled"}


def test_the_losses_of_a_local_run_come_from_its_record(tmp_path: Path) -> None:
    folder = tmp_path / "tiny" / "xsft"
    folder.mkdir(parents=True)
    attempts = (Attempt(number=1), Attempt(number=2, resumed_from=1))
    record = Record(run_name="tiny", attempts=attempts, losses={1: 6.5, 2: 6.0})
    (folder / "run.json").write_text(to_json(record))
    loss_curve = read_curve(local(), output=str(tmp_path), store=store(tmp_path), lines=silent)
    assert loss_curve == LossCurve(
        run_name="tiny",
        points={1: 6.5, 2: 6.0},
        resumed={1: "repeated"},
        sources=("record",),
        output=str(tmp_path),
    )


def test_the_losses_after_xsft_was_killed_come_from_the_event_files(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    for name in ("xsft", "tensorboard/tiny"):
        (folder / name).mkdir(parents=True)
    record = Record(run_name="tiny", attempts=(Attempt(number=1, outcome="running"),), losses={1: 6.5})
    (folder / "xsft" / "run.json").write_text(to_json(record))
    events = event(1, "learning/loss", 0.5) + event(2, "learning/loss", 0.25)
    (folder / "tensorboard" / "tiny" / "events.out.tfevents.1.host").write_bytes(events)
    assert read_curve(local(), output=str(tmp_path), store=store(tmp_path), lines=silent).points == {1: 6.5, 2: 0.25}

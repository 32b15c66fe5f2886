"""The conversion that a run starts from: the first complete try, else a matching conversion made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkpoints import small_files
from tests.checks.factory import DROP, spec
from xsft.base.errors import Unreachable
from xsft.base.stage import to_json
from xsft.checks.facts import Facts
from xsft.checks.subjects import check_run
from xsft.planning.gather import gather
from xsft.planning.tries import folder_names
from xsft.spec.conversion_inputs import RECORD_FILE, ConversionRecord
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import Run, resolve

MODEL = "qwen3-0.6b"


def _spec(output: Path, **hf: str) -> WorkloadSpec:
    model = {"name": MODEL, "checkpoint": DROP, "hf": {"repo": "Qwen/Qwen3-0.6B", **hf}}
    return spec(target="local", tpu=DROP, place=DROP, output=str(output), model=model)


def _seen(workload: WorkloadSpec, output: Path) -> tuple[Run, Facts, set[str]]:
    facts = gather(workload, file=output / "w.yaml", today="20261122")
    run, _ = resolve(workload, facts)
    ids = {problem.id for problem in check_run(run, facts) if problem.where.startswith("model.hf")}
    return run, facts, ids - {"hf-other-weights", "hf-tuned-weights"}


def _first(workload: WorkloadSpec) -> Path:
    return Path(resolve(workload, Facts())[0].converted or "")


def _write(folder: Path, model: str = MODEL) -> None:
    for name, content in small_files(model).items():
        file = folder / "0" / "items" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def _cut_off(folder: Path) -> None:
    """Leave the result as a kill does: Orbax renames the folder of the step when all is written."""
    (folder / "0.orbax-checkpoint-tmp" / "items").mkdir(parents=True)


def test_the_first_try_is_named_if_nothing_is_converted_yet(tmp_path: Path) -> None:
    workload = _spec(tmp_path)
    run, _, ids = _seen(workload, tmp_path)
    assert (run.checkpoint, run.next_try) == (f"{_first(workload)}/0/items", str(_first(workload)))
    assert ids == {"checkpoint-to-convert"}


def test_a_complete_first_try_is_the_checkpoint(tmp_path: Path) -> None:
    workload = _spec(tmp_path)
    _write(_first(workload))
    run, _, ids = _seen(workload, tmp_path)
    assert (run.checkpoint, ids) == (f"{_first(workload)}/0/items", set())


def test_a_torn_try_is_passed_over_and_its_folder_kept(tmp_path: Path) -> None:
    workload = _spec(tmp_path)
    first = _first(workload)
    _cut_off(first)
    run, facts, ids = _seen(workload, tmp_path)
    assert ids == {"checkpoint-to-convert"}
    assert (run.next_try, facts.tries and facts.tries.broken) == (f"{first}-2", (str(first),))
    _write(first.with_name(f"{first.name}-2"))
    run, _, ids = _seen(workload, tmp_path)
    assert (run.checkpoint, ids) == (f"{first}-2/0/items", set())


def test_a_try_with_only_a_record_folder_is_used_again(tmp_path: Path) -> None:
    workload = _spec(tmp_path)
    (_first(workload) / "xsft").mkdir(parents=True)
    assert _seen(workload, tmp_path)[0].next_try == str(_first(workload))


def test_a_try_that_a_converter_may_still_write_to_is_not_used_again(tmp_path: Path) -> None:
    """After kill -9 of xsft, a converter without a parent-death signal continues."""
    workload = _spec(tmp_path)
    first, digest = _first(workload), resolve(workload, Facts())[0].conversion
    assert digest
    record = ConversionRecord(digest=digest.digest, run_name="w-convert", outcome="running")
    (first / "xsft").mkdir(parents=True)
    (first / RECORD_FILE).write_text(to_json(record))
    assert _seen(workload, tmp_path)[0].next_try == f"{first}-2"
    _write(first)
    assert _seen(workload, tmp_path)[0].checkpoint == f"{first}/0/items"


def test_a_named_folder_has_tries_too(tmp_path: Path) -> None:
    workload = _spec(tmp_path, converted=str(tmp_path / "mine"))
    _cut_off(tmp_path / "mine")
    _write(tmp_path / "mine-2")
    assert _seen(workload, tmp_path)[0].checkpoint == f"{tmp_path}/mine-2/0/items"


@pytest.mark.parametrize("refused", ["converted", "try"])
def test_unreadable_tries_are_not_reported_as_unconverted(tmp_path: Path, refused: str) -> None:
    """Reported as unconverted, the weights would be converted a second time."""
    workload = _spec(tmp_path)
    _write(_first(workload))

    def names(folder: str) -> tuple[str, ...]:
        if folder.endswith(refused) or (refused == "try" and folder == str(_first(workload))):
            raise Unreachable("permission denied")
        return folder_names(folder)

    facts = gather(workload, file=tmp_path / "w.yaml", today="20261122", names=names)
    assert facts.checkpoint is not None
    assert (facts.checkpoint.status, facts.checkpoint.detail) == ("unreadable", "permission denied.")

"""`data.pipeline: grain`: MaxText reads what `xsft data prepare` wrote, as the same text, and trains on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.pipeline import Pipeline, PipelineError
from tests.stories import intent_of
from xsft.environments.installed import BuiltEnvironment
from xsft.planning import api
from xsft.planning.installed_maxtext import ask_rows
from xsft.spec.model import WorkloadSpec
from xsft.verbs.cli import main

pytestmark = pytest.mark.maxtext

TINY = Path(__file__).parents[2] / "workloads" / "tiny_local.yaml"
ROWS = 96

Prepare = Callable[..., dict[str, Any]]


@pytest.fixture
def prepared(tmp_path: Path, capfd: pytest.CaptureFixture[str], maxtext_environment: BuiltEnvironment) -> Prepare:
    """The tiny workload, its data prepared so."""
    del maxtext_environment

    def made(*options: str, rows: int = ROWS, **data: Any) -> dict[str, Any]:
        lines = ({"question": f"What is {n} plus 1?", "answer": f"It is {n + 1}."} for n in range(rows))
        (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        source = {"hf_path": "json", "hf_train_files": str(tmp_path / "rows.jsonl"), "columns": ["question", "answer"]}
        tiny = yaml.safe_load(TINY.read_text()) | {"data": source | data, "output": str(tmp_path / "out")}
        file = tmp_path / "w.yaml"
        file.write_text(yaml.safe_dump(tiny))
        capfd.readouterr()
        assert main(("data", "prepare", str(file), *options)) == 0
        return tiny | yaml.safe_load(capfd.readouterr().out)

    return made


def read(document: dict[str, Any], pipeline: Pipeline, *, batches: int = ROWS, **here: Any) -> list[tuple[Any, ...]]:
    """Text and trained tokens of each example; Grain lists files in the order of the disk."""
    argv = intent_of(WorkloadSpec.model_validate(document)).trainer_argv
    row_list = pipeline.rows(argv, {"packing": False, "per_device_batch_size": 1, **here}, batches=batches)
    return [(row.text.replace("<|pad|>", ""), row.trained) for row in row_list]


def problem_ids(document: dict[str, Any]) -> list[str]:
    """Ids of the problems in the rows that `xsft check` finds."""
    (intent,) = api.intend((api.LoadedWorkload(file="w.yaml", spec=WorkloadSpec.model_validate(document)),))
    problems = (*intent.problems, *ask_rows(intent))
    return [problem.id for problem in problems if problem.severity != "note" and problem.id.startswith("data-")]


@pytest.mark.contract
def test_grain_reads_the_text_that_hf_reads(prepared: Prepare, maxtext_pipeline: Pipeline) -> None:
    streamed = read(prepared(), maxtext_pipeline)
    assert len(streamed) == ROWS
    assert streamed[0][1][-2:] == ("<|end|>", "\n")
    for form, pipeline in (("parquet", {"pipeline": "grain"}), ("arrayrecord", {})):
        document = prepared("--format", form)
        document["data"] |= pipeline
        assert document["data"]["pipeline"] == "grain"
        assert "data-columns" not in problem_ids(document)
        others = {"data": document["data"] | {"columns": ["prompt", "completion"]}}
        assert {"data-columns", "data-refused"} & {*problem_ids(document | others)}  # the second: in MaxText's words
        assert sorted(read(document, maxtext_pipeline)) == sorted(streamed)
    document["data"] |= {"columns": ["messages"]}  # of an array record; `grain-columns` refuses it
    with pytest.raises(PipelineError, match="messages"):
        read(document, maxtext_pipeline)


@pytest.mark.contract
def test_another_seed_reads_an_array_record_in_another_order(prepared: Prepare, maxtext_pipeline: Pipeline) -> None:
    """All rows are mixed, not 1,000 of a file: what is read again is chance (docs/guides/restarts.md)."""
    rows, part = 400, 100
    document = prepared("--format", "arrayrecord", "--shards", "1", rows=rows)
    first, second = (
        {text for text, _ in read(document, maxtext_pipeline, batches=part, **_shuffled(seed))} for seed in (0, 1)
    )
    assert len(first) == len(second) == part
    assert len(first & second) / part < 2 * part / rows


def _shuffled(seed: int) -> dict[str, Any]:
    return {"enable_data_shuffling": True, "data_shuffle_seed": seed}


@pytest.mark.trainer
@pytest.mark.usefixtures("warm_maxtext")
def test_a_training_reads_array_records_and_evaluates(
    tmp_path: Path, prepared: Prepare, capfd: pytest.CaptureFixture[str]
) -> None:
    document = prepared("--format", "arrayrecord", "--eval-share", "0.2", rows=400)
    document["train"] |= {"steps": 8}
    document["eval"] = {"interval": 4, "steps": 2}
    del document["overrides"]["maxtext"]["eval_interval"]
    file = tmp_path / "grain.yaml"
    file.write_text(yaml.safe_dump(document))
    assert main(("check", str(file))) == 0
    capfd.readouterr()
    assert main(("submit", str(file), "--json")) == 0
    result = json.loads(capfd.readouterr().out)["result"]
    assert result["steps"] == 8
    assert result["last_loss"] < result["first_loss"]

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.localruns import WORKLOADS
from xsft.base.reporting import Reporter
from xsft.base.stage import Stage
from xsft.planning import api
from xsft.planning.steps import Intent
from xsft.stages import stage_list
from xsft.stages.cluster_job import ClusterCall, StageOnCluster
from xsft.stages.stage_list import plan_stages, stages_of
from xsft.stages.stage_plans import plan_files

CALL = ClusterCall(ask=None, poll_s=0.0, listener=Reporter())


def kind(stage: Stage) -> str:
    """The name of the stage's type; of a job on a cluster that of the job."""
    return type(stage.job if isinstance(stage, StageOnCluster) else stage).__name__


def kinds(file: Path) -> list[tuple[str, str, str]]:
    stages_read = stages_of(api.load(file), run_name="r", call=CALL)
    return [(kind(stage), stage.name, stage.run_name) for stage in stages_read]


def test_stages_of_a_cluster_have_runs_of_their_own() -> None:
    assert kinds(WORKLOADS / "gemma2_ultrachat.yaml") == [
        ("ConversionJob", "convert", "r-convert"),
        ("TrainJob", "train", "r"),
        ("EvaluationJob", "evaluate", "r-evaluate"),
        ("ExportJob", "export", "r-export"),
        ("ServeOnCluster", "serve", "r-serve"),
    ]


def test_a_workload_of_this_machine_has_stages_of_this_machine(tmp_path: Path) -> None:
    workload = yaml.safe_load((WORKLOADS / "tiny_local.yaml").read_text())
    file = tmp_path / "w.yaml"
    file.write_text(yaml.safe_dump({**workload, "stages": {"export": {}}}))
    assert kinds(file) == [("TrainHere", "train", "r"), ("StageHere", "export", "r-export")]


def test_a_stage_that_cannot_be_planned_has_its_problems(tmp_path: Path) -> None:
    workload = yaml.safe_load((WORKLOADS / "gemma2_ultrachat.yaml").read_text())
    model = {"name": "gemma2-2b", "checkpoint": "gs://my-bucket/gemma2-2b/0/items"}
    file = tmp_path / "w.yaml"
    file.write_text(yaml.safe_dump({**workload, "model": model, "stages": {"export": {"verify": "logits"}}}))
    (tmp_path / "places.yaml").write_bytes((WORKLOADS.parent / "places.yaml").read_bytes())
    loaded, _ = api.load_each([file], offline=True)
    (export,) = plan_stages(loaded[0], intent=api.intend(loaded)[0], run_name="r")
    assert (export.name, export.run_name, export.writes) == ("export", "r-export", None)
    assert [problem.id for problem in export.problems] == ["export-logits-cluster"]


def test_stages_are_planned_from_the_facts_of_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, _ = api.load_each([WORKLOADS / "gemma2_ultrachat.yaml"], offline=True)
    (intent,) = api.intend(loaded)
    intents: list[Intent | None] = []

    def shared(_workload: api.LoadedWorkload, *, known: Intent | None, **_others: object) -> tuple[()]:
        intents.append(known)
        return ()

    monkeypatch.setattr(stage_list, "stages_of", shared)
    assert plan_stages(loaded[0], intent=intent, run_name="r") == ()
    assert intents == [intent]


def test_stages_are_planned_beside_the_training_and_unread_files_are_problems(tmp_path: Path) -> None:
    workload = yaml.safe_load((WORKLOADS / "tiny_local.yaml").read_text())
    file = tmp_path / "w.yaml"
    file.write_text(yaml.safe_dump({**workload, "output": str(tmp_path / "out"), "stages": {"export": {}}}))
    files = (str(file), "nosuch.yaml")
    planned_files = plan_files(files, settings=(), run_name="r", offline=True, progress=lambda _line: None)
    assert [plan.run_name for plan in planned_files.plans] == ["r"]
    assert [[stage.name for stage in stages] for stages in planned_files.stages] == [["export"]]
    assert [problem.file for problem in planned_files.unread] == ["nosuch.yaml"]
    assert planned_files.problems[0] in planned_files.unread

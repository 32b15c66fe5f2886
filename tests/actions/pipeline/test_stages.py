from __future__ import annotations

from pathlib import Path

import yaml

from tests.localruns import WORKLOADS
from xsft import api
from xsft.actions.listener import ActionListener
from xsft.actions.pipeline.cluster import ClusterCall
from xsft.actions.pipeline.stages import stages_of

CALL = ClusterCall(ask=None, poll_s=0.0, listener=ActionListener())


def kinds(file: Path) -> list[tuple[str, str, str]]:
    stages = stages_of(api.load(file), run_name="r", call=CALL)
    return [(type(stage).__name__, stage.name, stage.run_name) for stage in stages]


def test_stages_of_a_cluster_have_runs_of_their_own() -> None:
    assert kinds(WORKLOADS / "gemma2_ultrachat.yaml") == [
        ("ConvertOnCluster", "convert", "r-convert"),
        ("TrainOnCluster", "train", "r"),
        ("EvaluateOnCluster", "evaluate", "r-evaluate"),
        ("ExportOnCluster", "export", "r-export"),
        ("ServeOnCluster", "serve", "r-serve"),
    ]


def test_a_workload_of_this_machine_has_stages_of_this_machine(tmp_path: Path) -> None:
    workload = yaml.safe_load((WORKLOADS / "tiny_local.yaml").read_text())
    file = tmp_path / "w.yaml"
    file.write_text(yaml.safe_dump({**workload, "stages": {"export": {}}}))
    assert kinds(file) == [("TrainHere", "train", "r"), ("ExportHere", "export", "r-export")]

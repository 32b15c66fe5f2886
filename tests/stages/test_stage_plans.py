from __future__ import annotations

from pathlib import Path

import yaml

from tests.localruns import WORKLOADS
from xsft.stages.stage_plans import plan_files


def test_stages_are_planned_beside_the_training_and_unread_files_are_problems(tmp_path: Path) -> None:
    workload = yaml.safe_load((WORKLOADS / "tiny_local.yaml").read_text())
    file = tmp_path / "w.yaml"
    file.write_text(yaml.safe_dump({**workload, "output": str(tmp_path / "out"), "stages": {"export": {}}}))
    files = (str(file), "nosuch.yaml")
    found = plan_files(files, settings=(), run_name="r", offline=True, progress=lambda _line: None)
    assert [plan.run_name for plan in found.plans] == ["r"]
    assert [[stage.name for stage in stages] for stages in found.stages] == [["export"]]
    assert [problem.file for problem in found.unread] == ["nosuch.yaml"]
    assert found.problems[0] in found.unread

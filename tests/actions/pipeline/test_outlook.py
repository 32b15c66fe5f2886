from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.localruns import WORKLOADS
from xsft import api
from xsft.actions.pipeline import outlook
from xsft.actions.pipeline.outlook import plan_stages
from xsft.steps import Intent


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
    given: list[Intent | None] = []

    def stages(_workload: api.Loaded, *, known: Intent | None, **_others: object) -> tuple[()]:
        given.append(known)
        return ()

    monkeypatch.setattr(outlook, "stages_of", stages)
    assert plan_stages(loaded[0], intent=intent, run_name="r") == ()
    assert given == [intent]

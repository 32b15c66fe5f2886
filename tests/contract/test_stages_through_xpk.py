"""The evaluation and the export of the workloads that have them, rendered by the real xpk: golden manifests, in which a
program that is sent stands by its name.
"""

from __future__ import annotations

import copy
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.cpujobs import pod_of, rendered_plans
from tests.goldens import Golden, readable
from tests.launcher.decoding import decode_command
from tests.stories import intent_of, spec_of, varied
from xsft.evaluation.trainer_plan import evaluation_plan
from xsft.launcher.cpujob import EXPORTED, CpuJob, export_job
from xsft.launcher.encoding import command_in_wrapper
from xsft.launcher.server_manifest import BF16_BYTES, weights_bytes
from xsft.launcher.slicejob import SliceJob, evaluation_job
from xsft.planning.steps import Intent, JobPlan
from xsft.spec.stages import EvaluateStage
from xsft.stages.export import intended_training
from xsft.stages.exported import plan_ahead
from xsft.weights.estimates import estimate_export
from xsft.weights.exporter import ExportRequest

pytestmark = pytest.mark.contract
NAMES = ("gemma2_ultrachat", "qwen3_gsm8k")
STAGES = [*product(NAMES, ("evaluate", "export"))]
KEYS = [*STAGES, *((name, "export-pathways") for name in NAMES)]
AnyPlan = JobPlan[CpuJob] | JobPlan[SliceJob]
PATHWAYS = {"mode": "pathways", "tpu.capacity": "on-demand"}


@pytest.fixture(scope="module")
def plans(xpk_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], AnyPlan]:
    """Return the plans by workload and stage; all rendered in one process."""
    jobs = {key: _job(*key) for key in KEYS}
    return rendered_plans(jobs, python=xpk_python, cache=tmp_path_factory.mktemp("renders"))


def _job(name: str, stage: str) -> CpuJob | SliceJob:
    changes = PATHWAYS if stage.endswith("pathways") else {}
    intent = intent_of(varied(spec_of(name), changes))
    return _evaluation(intent) if stage == "evaluate" else _export(intent)


def _evaluation(intent: Intent) -> SliceJob:
    stage = intent.run.spec.stages.evaluate or EvaluateStage()
    return evaluation_job(evaluation_plan(intent.run, digest="ab" * 32), intent.run, limit_s=stage.limit_s)


def _export(intent: Intent) -> CpuJob:
    export_plan = plan_ahead(
        intended_training(intent), ExportRequest(), step=intent.run.spec.train.steps, folder=EXPORTED
    )
    size = weights_bytes(intent.run)
    assert size is not None
    needs = estimate_export(export_plan.inputs, parameters=size // BF16_BYTES, weights_bytes=None)
    assert needs is not None
    return export_job(export_plan, intent.run, needs)


@pytest.mark.parametrize(("name", "stage"), STAGES)
def test_the_manifest_of_a_stage_is_the_golden_manifest(
    plans: dict[tuple[str, str], AnyPlan], name: str, stage: str, golden: Golden
) -> None:
    manifest = _without_programs(plans[name, stage].manifest or {})
    golden.check(f"{name}.{stage}.yaml", readable(manifest))


@pytest.mark.parametrize("name", NAMES)
def test_a_training_under_pathways_has_the_same_export(plans: dict[tuple[str, str], AnyPlan], name: str) -> None:
    plain_export, other = (
        _without_programs(plans[name, stage].manifest or {}) for stage in ("export", "export-pathways")
    )
    assert pod_of(plain_export)["containers"][0]["resources"] == pod_of(other)["containers"][0]["resources"]
    assert plain_export["metadata"]["labels"] == other["metadata"]["labels"]


@pytest.mark.parametrize("key", KEYS)
def test_the_audit_of_a_stage_finds_every_field(plans: dict[tuple[str, str], AnyPlan], key: tuple[str, str]) -> None:
    assert {row.outcome for row in plans[key].audit} == {"landed", "patched"}
    assert plans[key].problems == ()


def _without_programs(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest, with the decoded command of its container."""
    manifest = copy.deepcopy(manifest)
    (container,) = pod_of(manifest)["containers"]
    pairs, argv = decode_command(command_in_wrapper(container["command"][2]))
    container["command"] = {"env": dict(pairs), "argv": [_shown(word) for word in argv]}
    return manifest


def _shown(word: str) -> Any:
    if word.startswith('{"module":'):
        document = json.loads(word)
        if "noted" in document["notes"]:
            document["notes"]["noted"]["worker"] = document["sha256"] = "sha256 of the program that measures"
            return document
        if "files" in document:
            return {**document, "files": sorted(document["files"])}
        return {**document, "sha256": "sha256 of the programs of pods"}
    return word.partition("\n")[0]

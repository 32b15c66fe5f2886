"""Every workload of the repository: it reads, it plans without an error, and its plan is what tests/golden/ shows."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
import yaml

from tests.goldens import FOLDER, Golden, readable
from tests.stories import FILES, NAMES, ROOT, intent_of, plans_of, spec_of, varied
from xsft.base.names import ModeName
from xsft.base.problems import errors_in
from xsft.catalog import models
from xsft.catalog.data import SCHEME, SHIPPED, located
from xsft.planning.steps import Plan
from xsft.spec.explain import read_spec
from xsft.stages.create_server import plan_serving
from xsft.verbs.plan_text import plan_text

STORIES = (
    "deepseek_ultrachat",
    "deepseek_ultrachat_mcjax",
    "deepseek_lora",
    "qwen3_gsm8k",
    "gemma2_ultrachat",
    "llama31_lora",
    "tiny_local",
    "tiny_lora_local",
)
"""The stories of the design, each a workload."""

MANIFESTS = ("deepseek_ultrachat", "deepseek_ultrachat_mcjax", "qwen3_gsm8k")
"""Workloads whose whole manifest is kept: both modes, and spot slices."""

SERVED = ("gemma2_ultrachat", "qwen3_gsm8k")
"""Workloads with stages after the training."""


@pytest.fixture(scope="module")
def plans(xpk_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plan]:
    intents = {name: intent_of(spec_of(name)) for name in NAMES}
    return plans_of(intents, python=xpk_python, scratch=tmp_path_factory.mktemp("renders"))


def test_every_story_has_its_workload() -> None:
    assert set(STORIES) <= set(NAMES)


def test_every_mode_and_every_target_has_a_workload() -> None:
    runs = [intent_of(spec_of(name)).run for name in NAMES]
    assert {run.mode.value for run in runs if run.spec.target == "xpk"} == set(get_args(ModeName))
    assert {run.spec.target for run in runs} == {"xpk", "local"}


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_workload_has_no_error(name: str) -> None:
    assert errors_in(intent_of(spec_of(name)).problems) == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_names_a_model_that_the_catalogue_knows(name: str) -> None:
    """`default` is MaxText's own small model, for this machine only."""
    spec = spec_of(name)
    assert models.model(spec.model.name) if spec.target == "xpk" else spec.model.name == "default"


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_is_named_after_its_story(name: str) -> None:
    assert spec_of(name).name == name.replace("_", "-")


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_a_workload_names_its_schema_and_has_a_description(file: Path) -> None:
    first, second = file.read_text(encoding="utf-8").splitlines()[:2]
    schema = first.removeprefix("# yaml-language-server: $schema=")
    assert (file.parent / schema).resolve() == ROOT / "docs" / "reference" / "workload.schema.json"
    assert second.startswith("# ")


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_survives_being_written_again(name: str) -> None:
    spec = spec_of(name)
    text = yaml.safe_dump(spec.model_dump(mode="json", exclude_unset=True), allow_unicode=True)
    assert read_spec(text) == spec


@pytest.mark.contract
@pytest.mark.parametrize("name", NAMES)
def test_the_plan_is_the_golden_one(name: str, plans: dict[str, Plan], golden: Golden) -> None:
    golden.check(f"{name}.txt", _portable(plan_text(plans[name], audit=True)))


@pytest.mark.contract
@pytest.mark.parametrize("name", MANIFESTS)
def test_the_manifest_is_the_golden_one(name: str, plans: dict[str, Plan], golden: Golden) -> None:
    golden.check(f"{name}.manifest.yaml", readable(plans[name].manifest))


@pytest.mark.parametrize("name", SERVED)
def test_stages_are_not_in_the_digest_of_the_training(name: str) -> None:
    alone = varied(spec_of(name), {"stages": {}})
    assert intent_of(alone).spec_digest == intent_of(spec_of(name)).spec_digest


@pytest.mark.parametrize("name", SERVED)
def test_the_objects_of_the_server_are_the_golden_ones_in_both_modes(name: str, golden: Golden) -> None:
    runs = [
        intent_of(varied(spec_of(name), {"mode": mode, "tpu.capacity": "on-demand"})).run for mode in get_args(ModeName)
    ]
    plans = [plan_serving(run, weights=f"{run.output}/{run.run_name}-export/0123456789ab") for run in runs]
    assert plans[0] == plans[1]
    objects = (plans[0].manifest, *plans[0].dependents)
    golden.check(f"{name}.serve.yaml", "---\n".join(readable(kube_object) for kube_object in objects))


@pytest.mark.contract
@pytest.mark.parametrize("name", NAMES)
def test_every_field_of_a_workload_is_landed_or_patched(name: str, plans: dict[str, Plan]) -> None:
    plan = plans[name]
    assert plan.ok
    assert {row.outcome for row in plan.audit} <= {"landed", "patched"}
    assert (plan.manifest is None) == (plan.xpk_argv is None) == (plan.target == "local") == (plan.audit == ())


def test_no_golden_is_left_over() -> None:
    names = {f"{name}.txt" for name in (*NAMES, "status")} | {f"{name}.manifest.yaml" for name in MANIFESTS}
    names |= {f"{name}.{stage}.yaml" for name in SERVED for stage in ("evaluate", "export", "serve")}
    names |= {file.name for file in FOLDER.glob("*.convert*.yaml") if file.name.partition(".")[0] in NAMES}
    assert {file.name for file in FOLDER.iterdir()} == names


def _portable(text: str) -> str:
    """Replace the folder in which xsft is installed."""
    for name in SHIPPED:
        text = text.replace(located(SCHEME + name), SCHEME + name)
    return text

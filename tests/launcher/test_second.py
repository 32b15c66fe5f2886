"""The seam of launchers: a second one goes the whole way, from the workload to the API server's strict dry run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from tests.cpujobs import job
from tests.everything import changed
from tests.fakes.clusters import ClusterApi
from tests.servers import run_with, server
from tests.slicejobs import job as slice_job
from tests.stories import ROOT, facts_for
from xsft.base import targets
from xsft.base.errors import SpecError, UsageError
from xsft.base.names import ModeName, jobset_limit
from xsft.base.problems import errors_in
from xsft.cluster.jobset_fields import parse_jobset, parse_server
from xsft.cluster.observation import Status
from xsft.launch import submit
from xsft.launch.recording import gather_provenance
from xsft.launcher.launcher import Job, ReadyRendering
from xsft.launcher.server_expect import audit_server
from xsft.planning import api
from xsft.planning.planner import job_rendering, make_intent, make_job_plan, make_plan
from xsft.planning.steps import Plan
from xsft.records.jobset_paths import TARGET_LABEL
from xsft.runs.lastknown import LastKnown
from xsft.spec.explain import read_spec
from xsft.spec.model import DEFAULT_PRIORITY, WorkloadSpec
from xsft.spec.yamltext import load_yaml

SECOND = "second"
MODES = {"mcjax": "gemma2_ultrachat", "pathways": "deepseek_ultrachat"}
"""A shipped workload in each mode."""

MISTAKES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "no TPU": {"tpu": None},
        "no place": {"place": None},
        "unknown place": {"place": "nowhere"},
        "no image": {"image": {}},
        "a secret": {"env": {"XSFT_RESTARTS": "1"}},
        "a mesh that does not multiply": {"parallelism": {"ici": {"fsdp": 3}}},
        "several at once": {"image": {}, "env": {"XSFT_RESTARTS": "1"}, "parallelism": {"ici": {"fsdp": 3}}},
    }
)
"""Each wrong wherever a cluster is meant."""


@pytest.fixture(autouse=True)
def second(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that adding a launcher takes in the registry."""
    registry = {**targets.LAUNCHERS, SECOND: targets.RegisteredLauncher(module="tests.launcher.second")}
    monkeypatch.setattr(targets, "LAUNCHERS", MappingProxyType(registry))


def document(mode: str, **changes: Any) -> dict[str, Any]:
    """A shipped workload as it is written, with changes."""
    written: dict[str, Any] = load_yaml((ROOT / "workloads" / f"{MODES[mode]}.yaml").read_text(encoding="utf-8"))
    return changed(written, changes)


def spec(mode: str, *, target: str, **changes: Any) -> WorkloadSpec:
    return read_spec(yaml.safe_dump(document(mode, target=target, **changes)))


def plan(workload: WorkloadSpec) -> Plan:
    intent = make_intent(workload, facts_for(workload))
    (manifest,) = api.render_manifests((intent.rendering,))
    return make_plan(intent, rendered=manifest)


@pytest.mark.parametrize("mode", MODES)
def test_the_second_launchers_manifest_has_every_requested_value(mode: str) -> None:
    run_plan = plan(spec(mode, target=SECOND))
    assert {row.outcome for row in run_plan.audit} == {"landed", "patched"}
    assert [p.id for p in run_plan.problems if p.id.startswith("audit")] == []
    assert (run_plan.xpk_argv, run_plan.by_hand) == (None, ())


def test_the_second_launchers_cpu_jobs_have_every_requested_value() -> None:
    cpu_job = job(target=SECOND)
    rendering = job_rendering(cpu_job)
    assert isinstance(rendering, ReadyRendering)
    job_plan = make_job_plan(cpu_job, rendered=rendering.document, xpk_argv=None, file="w.yaml")
    assert {row.outcome for row in job_plan.audit} == {"landed", "patched"}
    assert (job_plan.problems, job_plan.by_hand) == ((), ())


def test_the_second_launchers_slice_jobs_have_every_requested_value() -> None:
    slices_job = slice_job(target=SECOND)
    rendering = job_rendering(slices_job)
    assert isinstance(rendering, ReadyRendering)
    job_plan = make_job_plan(slices_job, rendered=rendering.document, xpk_argv=None, file="w.yaml")
    assert {row.outcome for row in job_plan.audit} == {"landed", "patched"}
    assert (job_plan.problems, job_plan.by_hand) == ((), ())


@pytest.mark.parametrize("mode", MODES)
def test_every_field_of_the_second_launcher_is_audited_as_for_xpk(mode: str) -> None:
    ours = plan(spec(mode, target=SECOND))
    intent = make_intent(spec(mode, target="xpk"), facts_for(spec(mode, target="xpk")))
    assert {row.field for row in ours.audit} == {"target", *(e.field for e in intent.expectations)}
    assert len(ours.audit) == len(intent.expectations) + 1


@pytest.mark.parametrize("target", ["xpk", SECOND])
def test_status_reads_the_launcher_from_the_jobset(target: str) -> None:
    """A run whose record names another target would have no known output."""
    training = load_yaml((ROOT / "tests/golden/qwen3_gsm8k.manifest.yaml").read_text(encoding="utf-8"))
    if target == SECOND:
        training = plan(spec("mcjax", target=SECOND)).manifest
    run_object = parse_jobset(training)
    assert run_object.target == target
    last_known = LastKnown(jobset=run_object, observed_at="2026-11-21T12:00:00Z", status=Status(state="unknown"))
    assert last_known.observation("c", unread=()).target == target


@pytest.mark.parametrize("make", [job, slice_job], ids=["CPU job", "slice job"])
def test_status_reads_the_launcher_from_the_jobset_of_a_cpu_or_slice_job(make: Callable[..., Job]) -> None:
    target_job = make(target=SECOND)
    rendering = job_rendering(target_job)
    assert isinstance(rendering, ReadyRendering)
    job_plan = make_job_plan(target_job, rendered=rendering.document, xpk_argv=None, file="w.yaml")
    assert job_plan.manifest is not None
    assert parse_jobset(job_plan.manifest).target == SECOND


@pytest.mark.parametrize(("target", "label"), [("xpk", {}), (SECOND, {TARGET_LABEL: SECOND})])
def test_status_reads_the_launcher_from_the_server(target: str, label: dict[str, str]) -> None:
    """xpk's servers are without the label, as its JobSets are: their manifests did not change."""
    server_plan, run = server(changes={"target": target}), run_with(changes={"target": target})
    assert parse_server(server_plan.manifest).target == target
    labels = server_plan.manifest["metadata"]["labels"]
    assert {key: labels[key] for key in labels if key == TARGET_LABEL} == label
    rows = [row for row in audit_server(server_plan, run) if row.field == "target"]
    assert [row.outcome for row in rows] == ["landed"] * len(label)
    server_plan.manifest["metadata"]["labels"].pop(TARGET_LABEL, None)
    assert [row.outcome for row in audit_server(server_plan, run) if row.field == "target"] == ["dropped"] * len(label)


@pytest.mark.parametrize("label", [None, "", "local", "of-another-version"])
def test_a_run_of_an_unknown_launcher_is_still_on_a_cluster(label: str | None) -> None:
    assert targets.launcher_named(label) == "xpk"


def on_new_slices(mode: str, *, generation: str, **changes: Any) -> WorkloadSpec:
    slices = {"type": f"{generation}-16", "num_slices": 2}
    return read_spec(yaml.safe_dump(changed(document("mcjax", target=SECOND, tpu=slices), {"mode": mode, **changes})))


@pytest.mark.parametrize("mode", MODES)
def test_a_new_tpu_generation_needs_only_its_section_of_the_catalogue(new_generation: str, mode: str) -> None:
    """It is checked, rendered, audited, and read back by `status`."""
    run_plan = plan(on_new_slices(mode, generation=new_generation))
    assert run_plan.ok, errors_in(run_plan.problems)
    assert {row.outcome for row in run_plan.audit} == {"landed", "patched"}
    assert (run_plan.run.chips, run_plan.run.num_slices, run_plan.time is not None) == (32, 2, True)
    run_object = parse_jobset(run_plan.manifest or {})
    assert (run_object.tpu, run_object.num_slices, run_object.mode) == ("v7x-lite-16", 2, mode)
    wrong = on_new_slices(mode, generation=new_generation, parallelism={"ici": {"fsdp": 3}})
    assert ("mesh-ici-product", "parallelism.ici") in _ids(wrong)


def test_a_value_that_the_second_launcher_drops_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.launcher import second as module

    trainer = module._trainer
    monkeypatch.setattr(module, "_trainer", lambda run, chips: {**trainer(run, chips=chips), "env": []})
    assert "audit-dropped" in {p.id for p in plan(spec("mcjax", target=SECOND)).problems}


def test_the_token_of_the_hub_reaches_the_trainer() -> None:
    run_plan = plan(spec("mcjax", target=SECOND))
    (container,) = run_plan.manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]  # type: ignore[index]
    assert {"name": "HF_TOKEN_PATH", "value": "/etc/xsft/hf-token/token"} in container["env"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_bad_workload_has_the_same_problems_for_every_launcher(mode: str, mistake: str) -> None:
    """What an added launcher once lost: checks asked for xpk by name, and said nothing of another cluster."""
    ids_by_launcher = [_ids(spec(mode, target=target, **MISTAKES[mistake])) for target in ("xpk", SECOND)]
    assert ids_by_launcher[0] == ids_by_launcher[1]
    assert ids_by_launcher[0] - _ids(spec(mode, target="xpk")), "the mistake is one"


@pytest.mark.parametrize("target", ["xpk", SECOND])
def test_a_command_that_cannot_be_sent_names_the_launcher(target: str) -> None:
    workload = spec("mcjax", target=target, overrides={"maxtext": {"tokenizer_type": "x" * 120_000}})
    intent = make_intent(workload, facts_for(workload))
    (problem,) = (p for p in intent.problems if p.id == "command-encoding")
    assert problem.message.startswith(f"the command cannot be passed to {target}: ")


def test_a_name_that_is_too_long_for_xpk_only_may_be_used_with_the_second_launcher() -> None:
    ids_by_launcher = [_ids(spec("mcjax", target=target, name="a" * 39, stages=None)) for target in ("xpk", SECOND)]
    assert ids_by_launcher[0] - ids_by_launcher[1] == {("name-too-long", "name")}
    assert ids_by_launcher[1] == _ids(spec("mcjax", target=SECOND, stages=None))
    sizes = {"num_slices": 1, "hosts": 1}
    assert [jobset_limit(target=target, mode="mcjax", **sizes) for target in ("xpk", SECOND)] == [40, 43]
    assert [jobset_limit(target=target, mode="pathways", **sizes) for target in ("xpk", SECOND)] == [22, 22]


@pytest.mark.parametrize("mode", MODES)
def test_the_second_launcher_takes_the_name_of_any_priority_class(mode: str) -> None:
    run_plan = plan(spec(mode, target=SECOND, priority="team.urgent"))
    pods = [job["template"]["spec"]["template"]["spec"] for job in run_plan.manifest["spec"]["replicatedJobs"]]  # type: ignore[index]
    assert {pod["priorityClassName"] for pod in pods} == {"team.urgent"}
    for target, priority, problem in (("xpk", "team.urgent", "not-allowed"), (SECOND, "Team", "wrong-form")):
        with pytest.raises(SpecError) as refused:
            spec(mode, target=target, priority=priority)
        assert [(p.id, p.where) for p in refused.value.problems] == [(problem, "priority")]


def test_a_launcher_with_a_list_of_priorities_takes_the_default() -> None:
    lists = [launcher.priorities for launcher in targets.LAUNCHERS.values() if launcher.priorities]
    assert lists
    assert all(DEFAULT_PRIORITY in launcher for launcher in lists)


@pytest.mark.parametrize(("target", "tools"), [("xpk", {"xpk"}), (SECOND, set())])
def test_a_record_lists_the_versions_of_the_launchers_own_tools(target: str, tools: set[str]) -> None:
    assert gather_provenance("w.yaml", target=target).versions.keys() == {"xsft", "python", *tools}


def test_a_bad_workload_has_other_problems_on_this_machine() -> None:
    """The same file for this machine: nothing that only a cluster needs is asked for."""
    wrong = {"image": {}, "env": {"XSFT_RESTARTS": "1"}, "parallelism": {"ici": {"fsdp": 3}}, "place": "nowhere"}
    names = {name for name, _where in _ids(spec("mcjax", target="local", **wrong))}
    assert names == {"local-memory"}


def _ids(workload: WorkloadSpec) -> set[tuple[str, str]]:
    intent = make_intent(workload, facts_for(workload))
    return {(p.id, p.where) for p in errors_in(intent.problems)}


def test_a_workload_may_name_the_second_launcher_as_its_target() -> None:
    with pytest.raises(SpecError) as refused:
        spec("mcjax", target="third")
    (problem,) = refused.value.problems
    assert "second" in problem.message + problem.fix


def test_a_dry_run_is_not_sent_through_xpk() -> None:
    workload = spec("mcjax", target=SECOND)
    loaded = api.LoadedWorkload(file="", spec=workload)
    with pytest.raises(UsageError, match="another launcher"):
        submit.submitter_for(loaded, plan(workload), through_xpk=True, progress=lambda _line: None)


@pytest.mark.parametrize("mode", MODES)
def test_the_second_launchers_manifest_is_accepted_by_the_api_server(cluster_api: ClusterApi, mode: str) -> None:
    """Strictly: a field that the API server does not know is refused."""
    _accepted(cluster_api, spec(mode, target=SECOND, namespace=cluster_api.namespace))


@pytest.mark.parametrize("mode", MODES)
def test_the_second_launchers_manifest_of_a_new_tpu_generation_is_accepted(
    cluster_api: ClusterApi, new_generation: str, mode: str
) -> None:
    _accepted(cluster_api, on_new_slices(mode, generation=new_generation, namespace=cluster_api.namespace))


@pytest.mark.parametrize("mode", MODES)
def test_the_longest_name_of_the_second_launcher_is_accepted_by_the_api_server(
    cluster_api: ClusterApi, mode: ModeName
) -> None:
    """Without a limit of its own, the limits of Kubernetes and JobSet hold; with McJAX they are above xpk's 40."""
    shape = plan(spec(mode, target=SECOND)).run
    assert shape.slice is not None
    limit = jobset_limit(target=SECOND, mode=mode, num_slices=shape.num_slices, hosts=shape.slice.hosts)
    assert limit == {"mcjax": 43, "pathways": 22}[mode]
    dated = {"name": "a" * (limit - len("-20261121")), "run_name_suffix": "date", "stages": None}
    run_plan = plan(spec(mode, target=SECOND, namespace=cluster_api.namespace, **dated))
    assert len(run_plan.jobset) == limit
    assert cluster_api.connect().dry_run_jobs(cluster_api.connect().dry_run_jobset(run_plan.manifest)) == ()


def _accepted(cluster_api: ClusterApi, workload: WorkloadSpec) -> None:
    accepted_plan, cluster = plan(workload), cluster_api.connect()
    stored = cluster.dry_run_jobset(accepted_plan.manifest)
    assert stored["spec"]["suspend"] is True
    assert cluster.dry_run_jobs(stored) == ()

"""Objects read from and created in a cluster, with the stand-in and with a real control plane."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.clusters import ClusterApi
from tests.faults.world import deny
from xsft.base.errors import EnvironmentMissing, Refused, SpecError, Unreachable
from xsft.cluster import resources as kinds
from xsft.cluster.exactly_once import CreatedObject, ExistingObject
from xsft.spec.yamltext import load_yaml

pytestmark = pytest.mark.loopback

GOLDEN = Path(__file__).parents[1] / "golden"
MODES = ("deepseek_ultrachat", "deepseek_ultrachat_mcjax")
CREATE = r"^POST /apis/jobset.x-k8s.io/v1alpha2/namespaces/\w+/jobsets\?fieldValidation=Strict&fieldManager"


def planned(name: str = "deepseek_ultrachat_mcjax", *, namespace: str = "default") -> dict[str, Any]:
    """The manifest of one of the shown workloads."""
    manifest: dict[str, Any] = load_yaml((GOLDEN / f"{name}.manifest.yaml").read_text(encoding="utf-8"))
    manifest["metadata"]["namespace"] = namespace
    return manifest


def sent_to(api: ClusterApi, name: str = "deepseek_ultrachat_mcjax") -> dict[str, Any]:
    return planned(name, namespace=api.namespace)


def trainer(manifest: dict[str, Any]) -> dict[str, Any]:
    """The trainer's Job template."""
    jobs = {job["name"]: job for job in manifest["spec"]["replicatedJobs"]}
    return dict(jobs.get("pathways-head", jobs.get("slice-job", {}))["template"]["spec"])


def container(manifest: dict[str, Any]) -> dict[str, Any]:
    trainer_container: dict[str, Any] = trainer(manifest)["template"]["spec"]["containers"][0]
    return trainer_container


@pytest.mark.parametrize("workload", MODES)
def test_the_dry_run_accepts_the_planned_manifest_and_its_jobs(cluster_api: ClusterApi, workload: str) -> None:
    cluster = cluster_api.connect()
    stored = cluster.dry_run_jobset(sent_to(cluster_api, workload))
    assert stored["spec"]["suspend"] is True  # Kueue's webhook was asked
    assert cluster.dry_run_jobs(stored) == ()
    assert (
        cluster.get_jobset(name=sent_to(cluster_api, workload)["metadata"]["name"], namespace=cluster_api.namespace)
        is None
    )


@pytest.mark.parametrize("workload", MODES)
def test_the_created_object_is_the_planned_manifest(cluster_api: ClusterApi, workload: str) -> None:
    manifest = sent_to(cluster_api, workload)
    cluster_api.connect().create_jobset(manifest)
    (create,) = cluster_api.server.asked(CREATE)
    assert create.body == manifest
    assert create.query["fieldValidation"] == "Strict"


@pytest.mark.early
def test_a_second_create_returns_the_first_object(cluster_api: ClusterApi) -> None:
    cluster = cluster_api.connect()
    first, second = cluster.create_jobset(sent_to(cluster_api)), cluster.create_jobset(sent_to(cluster_api))
    assert isinstance(first, CreatedObject)
    assert isinstance(second, ExistingObject)
    assert first.object["metadata"]["uid"] == second.object["metadata"]["uid"]


def test_a_dry_run_under_a_taken_name_is_still_validated(cluster_api: ClusterApi) -> None:
    cluster = cluster_api.connect()
    cluster.create_jobset(sent_to(cluster_api))
    assert cluster.dry_run_jobset(sent_to(cluster_api)) == sent_to(cluster_api)
    bad = sent_to(cluster_api)
    bad["metadata"]["labels"]["team"] = "a b"
    with pytest.raises(SpecError, match="a valid label must be"):
        cluster.dry_run_jobset(bad)


def test_jobsets_are_listed_by_the_label_of_their_run(cluster_api: ClusterApi) -> None:
    cluster = cluster_api.connect()
    run = sent_to(cluster_api)["metadata"]["labels"]["xsft.dev/run"]
    assert cluster.list_jobsets(namespace=cluster_api.namespace, run_name=run) == ()
    cluster.create_jobset(sent_to(cluster_api))
    assert [o["metadata"]["name"] for o in cluster.list_jobsets(namespace=cluster_api.namespace, run_name=run)] == [
        sent_to(cluster_api)["metadata"]["name"]
    ]
    assert cluster.list_jobsets(namespace=cluster_api.namespace, run_name="another") == ()


@pytest.mark.parametrize("action", ["broken-json", "broken-gzip", "short"])
def test_an_incomplete_404_answer_is_requested_again(cluster_api: ClusterApi, action: str) -> None:
    """Half of "no such JobSet" must not be read as "JobSet is not installed"."""
    cluster_api.server.fail("/jobsets/", action=action)
    assert cluster_api.connect().get_jobset(name="nosuch", namespace=cluster_api.namespace) is None
    assert len(cluster_api.server.seen) == 2


def test_queues_flavors_and_priority_classes_are_read(cluster_api: ClusterApi) -> None:
    cluster = cluster_api.connect()
    queue = cluster.local_queue(name="multislice-queue", namespace=cluster_api.namespace)
    assert queue is not None
    assert cluster.cluster_queue(queue.spec.cluster_queue or "") is not None
    assert cluster.local_queue(name="nosuch", namespace=cluster_api.namespace) is None
    assert cluster.resource_flavor("cpu-user") is not None
    assert cluster.priority_class("medium") is not None
    assert cluster.namespace("nosuch") is None
    assert cluster.reads.workloads(namespace=cluster_api.namespace).objects == ()


@pytest.mark.standin_only("other-version")
def test_a_newer_kueue_is_queried_in_its_version(cluster_api: ClusterApi) -> None:
    kueue = cluster_api.standin.objects.kinds
    for key in [key for key in kueue if key.startswith("kueue")]:
        kueue[key] = (("v1beta2",), *kueue[key][1:])
    assert cluster_api.connect().local_queue(name="multislice-queue", namespace=cluster_api.namespace) is not None
    assert cluster_api.server.asked("kueue.x-k8s.io/v1beta2/")


@pytest.mark.standin_only("not-installed")
def test_a_cluster_without_jobset_or_kueue_is_reported(cluster_api: ClusterApi) -> None:
    cluster_api.standin.objects.uninstall("jobset.x-k8s.io")
    cluster_api.standin.objects.uninstall("kueue.x-k8s.io")
    with pytest.raises(EnvironmentMissing, match="JobSet is not installed") as jobset:
        cluster_api.connect().create_jobset(sent_to(cluster_api))
    with pytest.raises(EnvironmentMissing, match="Kueue is not installed") as kueue:
        cluster_api.connect().local_queues(namespace=cluster_api.namespace)
    assert (jobset.value.problem_id, kueue.value.problem_id) == ("jobset-not-installed", "kueue-not-installed")
    assert "jobset.sigs.k8s.io" in jobset.value.fix


def test_a_missing_namespace_is_named(cluster_api: ClusterApi) -> None:
    manifest = sent_to(cluster_api)
    manifest["metadata"]["namespace"] = "nosuch"
    with pytest.raises(SpecError) as caught:
        cluster_api.connect().create_jobset(manifest)
    (problem,) = caught.value.problems
    assert (problem.id, problem.where) == ("namespace-missing", "namespace")
    assert "nosuch" in problem.message


def test_an_unknown_field_is_refused_and_not_dropped(cluster_api: ClusterApi) -> None:
    manifest = sent_to(cluster_api)
    manifest["spec"]["foo"] = 1
    for act in (cluster_api.connect().dry_run_jobset, cluster_api.connect().create_jobset):
        with pytest.raises(SpecError) as caught:
            act(manifest)
        assert 'unknown field "spec.foo"' in caught.value.problems[0].message
    assert cluster_api.connect().list_jobsets(namespace=cluster_api.namespace) == ()


def test_the_message_of_a_webhook_is_quoted(cluster_api: ClusterApi) -> None:
    manifest = sent_to(cluster_api)
    manifest["metadata"]["name"] = "a" * 43
    with pytest.raises(SpecError) as caught:
        cluster_api.connect().create_jobset(manifest)
    (problem,) = caught.value.problems
    assert problem.id == "admission-denied"
    assert "JobSet name is too long" in problem.message


def test_a_refused_list_names_the_kind_and_namespace(cluster_api: ClusterApi) -> None:
    cluster_api.server.fail("^GET .*jobsets", code=400, message="the selector is wrong")
    with pytest.raises(SpecError) as caught:
        cluster_api.connect().list_jobsets(namespace="default")
    (problem,) = caught.value.problems
    assert "None" not in problem.message
    assert "refuses to list jobsets.jobset.x-k8s.io in the namespace default: the selector" in problem.message


NO_ENDPOINTS = (
    'Internal error occurred: failed calling webhook "mjobset.kb.io": failed to call webhook: Post'
    ' "https://jobset-webhook-service.jobset-system.svc:443/mutate-jobset?timeout=10s": no endpoints available for'
    ' service "jobset-webhook-service"'
)


@pytest.mark.parametrize(
    ("message", "look"),
    [
        (NO_ENDPOINTS, "-n jobset-system get deployment jobset-controller-manager"),
        (NO_ENDPOINTS.replace("jobset", "kueue"), "-n kueue-system get deployment kueue-controller-manager"),
        (NO_ENDPOINTS.replace("jobset", "policy"), "-n policy-system get endpoints policy-webhook-service"),
    ],
)
def test_a_webhook_that_is_down_is_named_with_its_deployment(cluster_api: ClusterApi, message: str, look: str) -> None:
    manifest = sent_to(cluster_api)
    cluster_api.server.fail("^POST ", code=500, message=message, times=9)
    with pytest.raises(Unreachable, match="no endpoints available") as caught:
        cluster_api.connect().create_jobset(manifest)
    assert (caught.value.problem_id, caught.value.exit_status) == ("webhook-down", 5)
    assert f"kubectl --context {cluster_api.context} {look}" in caught.value.fix


def test_a_field_unknown_to_the_installed_jobset_suggests_its_upgrade(cluster_api: ClusterApi) -> None:
    manifest = sent_to(cluster_api)
    complaint = 'JobSet in version "v1alpha2" cannot be handled as a JobSet: strict decoding error: unknown field'
    cluster_api.server.fail("^POST ", code=400, message=f'{complaint} "spec.ttlSecondsAfterFinished"')
    with pytest.raises(SpecError) as caught:
        cluster_api.connect().create_jobset(manifest)
    (problem,) = caught.value.problems
    assert problem.id == "manifest-invalid"
    assert "upgrade it to JobSet v0.5.0 or later" in problem.fix


def broken_image(manifest: dict[str, Any]) -> None:
    container(manifest)["image"] = ""


def broken_restart(manifest: dict[str, Any]) -> None:
    trainer(manifest)["template"]["spec"]["restartPolicy"] = "Always"


def broken_mount(manifest: dict[str, Any]) -> None:
    container(manifest).setdefault("volumeMounts", []).append({"name": "x", "mountPath": "/x"})


def broken_env(manifest: dict[str, Any]) -> None:
    container(manifest)["env"] = [{"name": "A B=", "value": "1"}]


def broken_label(manifest: dict[str, Any]) -> None:
    trainer(manifest)["template"]["metadata"].setdefault("labels", {})["team"] = "a b"


def broken_codes(manifest: dict[str, Any]) -> None:
    trainer(manifest)["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] = [5, 3]


BROKEN = {
    broken_image: "containers[0].image: Required value",
    broken_restart: 'Required value: valid values: "OnFailure", "Never"',
    broken_mount: 'Not found: "x"',
    broken_env: "printable ASCII characters other than '='",
    broken_label: "a valid label must be",
    broken_codes: "must be ordered",
}


@pytest.mark.parametrize("workload", MODES)
@pytest.mark.parametrize("spoil", BROKEN, ids=lambda f: f.__name__)
def test_the_dry_run_of_jobs_finds_a_pod_template_that_jobset_accepts(
    cluster_api: ClusterApi, spoil: Any, workload: str
) -> None:
    manifest = sent_to(cluster_api, workload)
    spoil(manifest)
    cluster = cluster_api.connect()
    problems = cluster.dry_run_jobs(cluster.dry_run_jobset(manifest))
    assert problems
    assert {p.id for p in problems} == {"manifest-invalid"}
    assert any(BROKEN[spoil] in p.message for p in problems)


def test_the_dry_run_of_jobs_finds_a_pathways_name_that_is_too_long(cluster_api: ClusterApi) -> None:
    manifest = sent_to(cluster_api, "deepseek_ultrachat")
    manifest["metadata"]["name"] = "a" * 23
    cluster = cluster_api.connect()
    problems = cluster.dry_run_jobs(cluster.dry_run_jobset(manifest))
    assert any("must be no more than 63 bytes" in p.message for p in problems)


def test_dry_run_jobs_warns_without_the_right_to_create_jobs(cluster_api: ClusterApi) -> None:
    deny(cluster_api.world, ("create", "jobs"))
    problems = cluster_api.connect().dry_run_jobs(sent_to(cluster_api))
    assert {(p.id, p.severity) for p in problems} == {("jobs-not-checked", "warning")}


def test_a_forbidden_create_names_verb_kind_namespace_and_command(cluster_api: ClusterApi) -> None:
    deny(cluster_api.world, ("create", "jobsets"))
    with pytest.raises(Unreachable, match="You may not create jobsets") as caught:
        cluster_api.connect().create_jobset(sent_to(cluster_api))
    assert caught.value.problem_id == "forbidden"
    assert f"in the namespace {cluster_api.namespace}" in caught.value.message
    assert f"--verb=create --resource=jobsets.jobset.x-k8s.io -n {cluster_api.namespace}" in caught.value.fix


def test_the_user_and_permissions_are_read(cluster_api: ClusterApi) -> None:
    deny(cluster_api.world, ("create", "jobsets"))
    cluster = cluster_api.connect()
    assert cluster.whoami() == cluster_api.world.user
    assert cluster.may("create", kinds.JOBSETS, namespace=cluster_api.namespace) is False
    assert cluster.may("list", kinds.JOBSETS, namespace=cluster_api.namespace) is True


def test_a_secret_is_created_once_and_its_keys_are_read_without_its_values(cluster_api: ClusterApi) -> None:
    value = f"hf_{secrets.token_hex(16)}".encode()
    cluster = cluster_api.connect()
    created = cluster.create_secret(name="hf", namespace=cluster_api.namespace, data={"token": value})
    again = cluster.create_secret(name="hf", namespace=cluster_api.namespace, data={"token": b"other"})
    assert isinstance(created, CreatedObject)
    assert isinstance(again, ExistingObject)
    assert cluster.secret_exists(name="hf", namespace=cluster_api.namespace)
    assert cluster.secret_keys(name="hf", namespace=cluster_api.namespace) == {"token"}
    assert cluster.secret_keys(name="nosuch", namespace=cluster_api.namespace) is None
    assert "data" not in created.object
    assert all("PartialObjectMetadata" in s.headers["accept"] for s in cluster_api.server.asked("^GET .*/secrets/")[1:])


def test_keys_of_a_secret_without_field_managers_are_read(cluster_api: ClusterApi) -> None:
    cluster_api.world.add_unmanaged_secret("hf", {"token": "eA=="})
    assert cluster_api.connect().secret_keys(name="hf", namespace=cluster_api.namespace) == {"token"}


def test_an_error_about_a_secret_does_not_quote_its_value(cluster_api: ClusterApi) -> None:
    value = f"hf_{secrets.token_hex(16)}"
    cluster_api.server.fail("POST .*/secrets", code=422, message=f"Secret is invalid: data: {value}")
    with pytest.raises(SpecError) as caught:
        cluster_api.connect().create_secret(name="hf", namespace=cluster_api.namespace, data={"token": value.encode()})
    assert value not in repr(caught.value.problems)


def test_creates_send_only_get_and_post(cluster_api: ClusterApi) -> None:
    cluster = cluster_api.connect()
    cluster.create_jobset(sent_to(cluster_api))
    cluster.create_jobset(sent_to(cluster_api))
    cluster.create_secret(name="hf", namespace=cluster_api.namespace, data={"token": b"x"})
    assert {request.method for request in cluster_api.server.seen} == {"GET", "POST"}


def test_a_conflict_without_an_object_is_refused(cluster_api: ClusterApi) -> None:
    """Another client creates and deletes the object: each create finds the name taken, and each read finds it free."""
    cluster_api.server.fail(CREATE, code=409, message="already exists", times=9)
    with pytest.raises(Refused, match="already exists"):
        cluster_api.connect().create_jobset(sent_to(cluster_api))

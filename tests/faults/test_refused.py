"""Manifests that real admission refuses, or accepts and never starts: each is found by xsft before, without a cluster.

A row spoils what would be sent and says what the server answers; `found` is a workload that would come to it and the
check that refuses that, or the reason why no workload does. source of the rows: study, infra §4.1 and §4.2.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_cluster import container, planned, sent_to, trainer
from tests.control_plane.api import Cluster
from tests.fakes.clusters import ClusterApi, reaching
from tests.stories import ROOT, facts_for
from xsft.base.errors import SpecError
from xsft.base.names import jobset_limit
from xsft.base.problems import errors_in
from xsft.cluster.cluster import Cluster as Client
from xsft.planning.planner import make_intent
from xsft.spec.explain import read_spec
from xsft.spec.yamltext import load_yaml

Json = dict[str, Any]
MCJAX, PATHWAYS = "deepseek_ultrachat_mcjax", "deepseek_ultrachat"
SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}
RENDERED = "rendered from constants, and audited: no workload says it"


@dataclass(frozen=True, kw_only=True)
class Row:
    spoil: Callable[[Json], object]
    says: str
    """The server's words, a part of them."""
    found: tuple[Mapping[str, Any], str] | str
    story: str = MCJAX


def named(name: str) -> Callable[[Json], object]:
    return lambda manifest_sent: manifest_sent["metadata"].update(name=name)


def labelled(key: str, value: str) -> Callable[[Json], object]:
    return lambda manifest_sent: manifest_sent["metadata"]["labels"].update({key: value})


def env(manifest_sent: Json, *entries: Json) -> None:
    container(manifest_sent)["env"] = [*(container(manifest_sent).get("env") or ()), *entries]


def codes(manifest_sent: Json) -> Json:
    """Return the exit codes of the rule that a wrong exit code meets."""
    exit_codes: Json = trainer(manifest_sent)["podFailurePolicy"]["rules"][0]["onExitCodes"]
    return exit_codes


def policy(manifest_sent: Json) -> Json:
    failure_policy: Json = manifest_sent["spec"]["failurePolicy"]
    return failure_policy


REFUSED = {
    "a name of 43": Row(
        spoil=named("a" * 43),
        says="JobSet name is too long, pod names generated for this JobSet will exceed 63 characters",
        found=({"name": "a" * 43}, "out-of-range"),
    ),
    "a name of 40 under Pathways": Row(
        spoil=named("a" * 40), says="JobSet name is too long", found=({"name": "a" * 40}, "name-too-long"),
        story=PATHWAYS,
    ),
    "a name that starts with a digit": Row(
        spoil=named("1run"), says="a DNS-1035 label must consist of", found=({"name": "1run"}, "wrong-form"),
    ),
    "a name with a dot": Row(
        spoil=named("run.1"), says="a DNS-1035 label must consist of", found=({"name": "run.1"}, "wrong-form"),
    ),
    **{
        f"the name {name}": Row(
            spoil=named(name), says="a lowercase RFC 1123 subdomain must consist of",
            found=({"name": name}, "wrong-form"),
        )
        for name in ("Run-1", "run_1", "-run", "run-")
    },
    "a queue of the wrong form": Row(
        spoil=labelled("kueue.x-k8s.io/queue-name", "Bad_Queue"), says="Bad_Queue",
        found=({"queue": "Bad_Queue"}, "wrong-form"),
    ),
    "no time to run": Row(
        spoil=labelled("kueue.x-k8s.io/max-exec-time-seconds", "0"), says="should be greater than 0", found=RENDERED,
    ),
    "a label with a space": Row(spoil=labelled("team", "a b"), says="a valid label must be", found=RENDERED),
    "a label of 64": Row(
        spoil=labelled("team", "a" * 64), says="must be no more than 63 bytes",
        found=({"name": "a" * 64}, "out-of-range"),
    ),
    "an unknown failure reason": Row(
        spoil=lambda sent: policy(sent)["rules"][0].update(onJobFailureReasons=["Foo"]),
        says="invalid job failure reason 'Foo'", found=RENDERED,
    ),
    "missing coordinator": Row(
        spoil=lambda sent: sent["spec"].update(coordinator={"replicatedJob": "nope"}),
        says="coordinator replicatedJob nope does not exist", found=RENDERED,
    ),
    "success policy without a job": Row(
        spoil=lambda sent: sent["spec"].update(successPolicy={"operator": "All", "targetReplicatedJobs": ["nope"]}),
        says="invalid replicatedJob name 'nope' does not appear in .spec.ReplicatedJobs", found=RENDERED,
    ),
    "an unknown action": Row(
        spoil=lambda sent: policy(sent)["rules"][0].update(action="Foo"), says='Unsupported value: "Foo"',
        found=RENDERED,
    ),
    "an unknown strategy": Row(
        spoil=lambda sent: policy(sent).update(restartStrategy="Foo"), says='Unsupported value: "Foo"', found=RENDERED,
    ),
    "negative ttl": Row(
        spoil=lambda sent: sent["spec"].update(ttlSecondsAfterFinished=-1),
        says="should be greater than or equal to 0",
        found=({"ttl_seconds_after_finished": -1}, "out-of-range"),
    ),
    "ttl of more than 32 bits": Row(
        spoil=lambda sent: sent["spec"].update(ttlSecondsAfterFinished=2**31), says="int32",
        found=({"ttl_seconds_after_finished": 2**31}, "out-of-range"),
    ),
    "restarts of more than 32 bits": Row(
        spoil=lambda sent: policy(sent).update(maxRestarts=2**31), says="int32",
        found=({"restarts": {"max": 2**31}}, "out-of-range"),
    ),
    "an environment name twice": Row(
        spoil=lambda sent: env(sent, {"name": "A"}, {"name": "A"}), says="Duplicate value",
        found=({"env": {"TPU_WORKER_ID": "1"}}, "env-reserved"),
    ),
    "an exit code twice": Row(
        spoil=lambda sent: codes(sent)["values"].append(codes(sent)["values"][-1]), says="Duplicate value",
        found="rendered as a set: the next test",
    ),
    "text for a number": Row(
        spoil=lambda sent: policy(sent).update(maxRestarts="abc"), says="cannot unmarshal string",
        found=({"restarts": {"max": "abc"}}, "wrong-type"),
    ),
    "a number for text": Row(
        spoil=lambda sent: env(sent, {"name": "A", "value": 1}), says="cannot unmarshal number",
        found=({"env": {"A": 1}}, "yaml-surprise"),
    ),
    "invalid quantity of CPUs": Row(
        spoil=lambda sent: container(sent)["resources"].update(requests={"cpu": "lots"}),
        says="quantities must match the regular expression", found=RENDERED,
    ),
    "an unknown field": Row(
        spoil=lambda sent: sent["spec"].update(foo=1), says='unknown field "spec.foo"', found=RENDERED,
    ),
    "3 MiB": Row(
        spoil=lambda sent: container(sent).update(args=["a" * 4_000_000]), says="limit is 3145728",
        found=({"env": {"A": "a" * 2_000_000}}, "manifest-size"),
    ),
}  # fmt: skip

NEVER_STARTED = {
    "no image": Row(
        spoil=lambda sent: container(sent).update(image=""), says="image: Required value",
        found=({"image": {"ref": ""}}, "wrong-form"),
    ),
    "restart always": Row(
        spoil=lambda sent: trainer(sent)["template"]["spec"].update(restartPolicy="Always"),
        says='Required value: valid values: "OnFailure", "Never"', found=RENDERED,
    ),
    "restart on failure beside a failure policy": Row(
        spoil=lambda sent: trainer(sent)["template"]["spec"].update(restartPolicy="OnFailure"),
        says='only "Never" is supported when podFailurePolicy is specified', found=RENDERED,
    ),
    "a mount without its volume": Row(
        spoil=lambda sent: container(sent).setdefault("volumeMounts", []).append({"name": "x", "mountPath": "/x"}),
        says='Not found: "x"', found=RENDERED,
    ),
    "a container's name": Row(
        spoil=lambda sent: container(sent).update(name="Jax_TPU"),
        says="must be one of the container or initContainer names in the pod template", found=RENDERED,
    ),
    "an environment name": Row(
        spoil=lambda sent: env(sent, {"name": "A B=", "value": "1"}),
        says="printable ASCII characters other than '='", found=({"env": {"A B=": "1"}}, "wrong-form"),
    ),
    "a pod's label": Row(
        spoil=lambda sent: trainer(sent)["template"]["metadata"].setdefault("labels", {}).update(team="a b"),
        says="a valid label must be", found=RENDERED,
    ),
    "exit code 0": Row(
        spoil=lambda sent: codes(sent).update(operator="In", values=[0]), says="must not be 0 for the In operator",
        found=({"restarts": {"max": 1, "on_exit_codes": [0]}}, "out-of-range"),
    ),
    "exit codes out of order": Row(
        spoil=lambda sent: codes(sent).update(values=[5, 3]), says="must be ordered", found="rendered sorted",
    ),
    "fraction of a chip": Row(
        spoil=lambda sent: container(sent)["resources"]["limits"].update({"google.com/tpu": "3500m"}),
        says="must be an integer", found="chips come from the catalogue",
    ),
    "a value and a Secret": Row(
        spoil=lambda sent: env(sent, {"name": "A", "value": "1", "valueFrom": SECRET}),
        says="may not be specified when `value` is not empty", found="Secrets are files",
    ),
    "no replicas": Row(
        spoil=lambda sent: sent["spec"]["replicatedJobs"][0].update(replicas=0), says="has 0 replicas",
        found=({"tpu": {"type": "v6e-256", "num_slices": 0}}, "out-of-range"),
    ),
    "a name of 23 under Pathways": Row(
        spoil=named("a" * 23), says="must be no more than 63 bytes", found=({"name": "a" * 23}, "name-too-long"),
        story=PATHWAYS,
    ),
    "no hosts": Row(
        spoil=lambda sent: sent["spec"]["replicatedJobs"][0]["template"]["spec"].update(parallelism=-1),
        says="must be greater than or equal to 0",
        found="hosts come from the catalogue",
    ),
}  # fmt: skip

TAKEN = {
    "negative grace period": ({"restarts": {"grace_period_s": -5}}, "out-of-range"),
    "an image with a space": ({"image": {"ref": "a b"}}, "wrong-form"),
    "negative restarts": ({"restarts": {"max": -1}}, "out-of-range"),
}
"""What no part of a cluster refuses."""


@pytest.fixture(scope="module")
def api(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterApi]:
    """One for all: what uses it leaves nothing there."""
    with reaching(real_cluster, tmp_path_factory.mktemp("refused")) as cluster_apis:
        yield cluster_apis


@pytest.mark.cluster
@pytest.mark.parametrize("case", REFUSED)
def test_the_server_refuses_a_spoiled_manifest_with_the_expected_message(api: ClusterApi, case: str) -> None:
    row = REFUSED[case]
    manifest = sent_to(api, row.story)
    row.spoil(manifest)
    for act in (api.connect().dry_run_jobset, api.connect().create_jobset):
        with pytest.raises(SpecError) as caught:
            act(manifest)
        assert any(row.says in problem.message for problem in caught.value.problems), caught.value.problems
    assert api.world.jobsets() == {}


@pytest.mark.cluster
@pytest.mark.parametrize("case", NEVER_STARTED)
def test_a_dry_run_of_the_jobs_finds_a_mistake_that_the_server_accepts(api: ClusterApi, case: str) -> None:
    row, cluster = NEVER_STARTED[case], api.connect()
    manifest = sent_to(api, row.story)
    row.spoil(manifest)
    cluster.dry_run_jobset(manifest)
    assert found_by(cluster, manifest, row.says)


def found_by(cluster: Client, manifest: Json, says: str) -> bool:
    problems = cluster.dry_run_jobs(manifest)
    assert {p.severity for p in problems} == {"error"}, problems
    return any(says in problem.message for problem in problems)


@pytest.mark.cluster
@pytest.mark.parametrize("case", ["no image", "a name of 23 under Pathways"])
def test_a_run_whose_jobs_are_never_made_holds_quota_and_reports_no_failure(
    real_cluster: Cluster, tmp_path: Path, case: str
) -> None:
    row = NEVER_STARTED[case]
    with reaching(real_cluster, tmp_path, gated=False) as api:
        manifest = sent_to(api, row.story)
        row.spoil(manifest)
        api.connect().create_jobset(manifest)
        workloads = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{api.namespace}/workloads"

        def admitted() -> bool:
            jobset_list = real_cluster.api("GET", workloads)["items"]
            conditions = [
                condition for jobset in jobset_list for condition in jobset.get("status", {}).get("conditions", ())
            ]
            return any(condition["type"] == "Admitted" and condition["status"] == "True" for condition in conditions)

        real_cluster.wait(admitted, what="Kueue to admit it")
        real_cluster.wait(lambda: tried(real_cluster, api.namespace), what="JobSet to try")
        jobs = real_cluster.api("GET", f"/apis/batch/v1/namespaces/{api.namespace}/jobs")["items"]
        (jobset,) = api.world.jobsets().values()
        assert jobs == []
        assert not any(condition["status"] == "True" for condition in jobset.get("status", {}).get("conditions", ()))
        assert real_cluster.pods(api.namespace) == []


def tried(cluster: Cluster, namespace: str) -> bool:
    """Return whether the controller tried, by its own log, the only place that tells."""
    lines = cluster.log_tail("jobset", lines=200).splitlines()
    return any("creation failed" in line and namespace in line for line in lines)


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("story", "slices"), [(MCJAX, n) for n in (1, 2, 4, 11, 101)] + [(PATHWAYS, n) for n in (1, 4)]
)
def test_the_longest_name_passes_the_dry_run_and_a_longer_one_fails_it(
    api: ClusterApi, story: str, slices: int
) -> None:
    mode = "mcjax" if story == MCJAX else "pathways"
    limit = jobset_limit(target="xpk", mode=mode, num_slices=slices, hosts=64)
    cluster, manifest = api.connect(), sent_to(api, story)
    manifest["spec"]["replicatedJobs"][-1]["replicas"] = slices
    named("a" * limit)(manifest)
    assert cluster.dry_run_jobs(cluster.dry_run_jobset(manifest)) == ()
    named("a" * (limit + (3 if limit == 40 else 1)))(manifest)  # 40 is xpk's own limit
    if mode == "pathways":
        assert found_by(cluster, cluster.dry_run_jobset(manifest), "no more than 63 bytes")
        return
    with pytest.raises(SpecError):
        cluster.dry_run_jobset(manifest)


@pytest.mark.parametrize("case", [*REFUSED, *NEVER_STARTED, *TAKEN])
def test_checks_find_the_mistake_of_a_workload_without_a_cluster(case: str) -> None:
    rows = {**REFUSED, **NEVER_STARTED}
    expected_ids = rows[case].found if case in rows else TAKEN[case]
    if isinstance(expected_ids, str):
        assert expected_ids  # the reason why no workload comes to it
        return
    changes, problem = expected_ids
    assert problem in ids_of(changes, rows[case].story if case in rows else MCJAX)


def ids_of(changes: Mapping[str, Any], story: str) -> set[str]:
    """Errors of a workload with other top-level sections."""
    try:
        spec = read_spec(json.dumps({**document(story), **changes}))
    except SpecError as refused:
        return {problem.id for problem in refused.problems}
    return {problem.id for problem in errors_in(make_intent(spec, facts_for(spec)).problems)}


@cache
def document(story: str) -> dict[str, Any]:
    workload_document: dict[str, Any] = load_yaml((ROOT / "workloads" / f"{story}.yaml").read_text(encoding="utf-8"))
    return workload_document


def test_a_spoiled_manifest_differs_from_the_planned_one() -> None:
    """Else a row would say nothing."""
    planned_manifests = {story: planned(story) for story in (MCJAX, PATHWAYS)}
    for case, row in {**REFUSED, **NEVER_STARTED}.items():
        manifest = deepcopy(planned_manifests[row.story])
        row.spoil(manifest)
        assert manifest != planned_manifests[row.story], case

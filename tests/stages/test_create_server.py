"""A server is created once by concurrent or killed callers; objects of others are not touched."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.clusters import ClusterApi
from tests.killing import Killed, dying
from tests.servers import NAME, WEIGHTS, recorded, run_with, server
from xsft.base.errors import Refused, SpecError
from xsft.launcher.server_manifest import ServingPlan
from xsft.stages.create_server import BegunServer, begin, confirm_server, find_server, plan_serving, stop_argv

Json = dict[str, Any]
CREATE = r"^POST /apis/apps/v1/namespaces/\S+/deployments\?fieldValidation=Strict&fieldManager"


Starts = Callable[..., BegunServer]


@pytest.fixture
def started(cluster_api: ClusterApi, tmp_path: Path) -> Starts:
    """Each call is another caller."""

    def start(plan: ServingPlan) -> BegunServer:
        return begin(cluster_api.connect(), plan, record=recorded(tmp_path), progress=lambda _line: None)

    return start


@pytest.fixture
def plan(cluster_api: ClusterApi) -> ServingPlan:
    return server(namespace=cluster_api.namespace)


def held(api: ClusterApi, plan: ServingPlan) -> list[Json | None]:
    """The Deployment, the Service and the budget."""
    servers = api.connect().servers
    return [servers.get(body) for body in (plan.manifest, *plan.dependents)]


def owner_of(json: Json | None) -> str:
    assert json is not None
    return str(json["metadata"]["ownerReferences"][0]["uid"])


def test_the_created_server_is_the_planned_one_and_owns_its_dependents(
    cluster_api: ClusterApi, plan: ServingPlan, started: Starts
) -> None:
    assert find_server(cluster_api.connect(), plan).state == "missing"
    done = started(plan)
    (create,) = cluster_api.server.asked(CREATE)
    assert create.body == plan.manifest
    _, service, budget = held(cluster_api, plan)
    assert (done.action, owner_of(service), owner_of(budget)) == ("created", done.uid, done.uid)
    assert find_server(cluster_api.connect(), plan).state == "running"


def test_concurrent_callers_create_one_server(cluster_api: ClusterApi, plan: ServingPlan, started: Starts) -> None:
    with ThreadPoolExecutor(4) as threads:
        begun = list(threads.map(lambda _: started(plan), range(4)))
    assert len({one.uid for one in begun}) == 1
    assert [one.action for one in begun].count("created") == 1
    assert None not in held(cluster_api, plan)


def test_a_server_that_another_caller_just_created_is_adopted(
    cluster_api: ClusterApi, plan: ServingPlan, started: Starts
) -> None:
    begun: list[BegunServer] = []
    cluster_api.server.fail(r"^GET .*/deployments/", code=0, then=lambda: begun.append(started(plan)))
    done = started(plan)
    assert (done.action, [done.uid]) == ("adopted", [one.uid for one in begun])


def test_a_lost_response_creates_no_second_server(cluster_api: ClusterApi, plan: ServingPlan, started: Starts) -> None:
    cluster_api.server.fail(CREATE, action="cut-after", times=1)
    assert started(plan).action == "created"
    assert None not in held(cluster_api, plan)


@pytest.mark.parametrize("writes", range(5), ids=["record", "deployment", "service", "budget", "end"])
def test_a_caller_killed_before_a_write_is_continued_by_the_next(
    cluster_api: ClusterApi, plan: ServingPlan, started: Starts, tmp_path: Path, writes: int
) -> None:
    with pytest.raises(Killed), dying(after=writes):
        started(plan)
    done = started(plan)
    _, service, budget = held(cluster_api, plan)
    assert (done.action, owner_of(service), owner_of(budget)) == (
        "adopted" if writes > 1 else "created",
        done.uid,
        done.uid,
    )
    record = recorded(tmp_path)
    (only,) = record.store.read_run(str(record.run.output), plan.run_name)
    assert (only.last.number, only.last.outcome, only.last.uid) == (1, "created", done.uid)


def test_a_server_with_other_inputs_is_kept_and_the_difference_named(
    cluster_api: ClusterApi, plan: ServingPlan, started: Starts
) -> None:
    before = started(plan).uid
    longer = server(namespace=plan.namespace, max_model_len=4096)
    assert find_server(cluster_api.connect(), longer).state == "missing"
    with pytest.raises(Refused) as refused:
        started(longer)
    assert refused.value.problem_id == "server-differs"
    assert '"--max-model-len=4096" -> "--max-model-len=1024"' in refused.value.message
    assert " ".join(stop_argv(cluster_api.connect(), longer)) in refused.value.fix
    assert started(plan).uid == before


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["deployment", "service", "budget"])
def test_an_object_of_another_user_is_kept(
    cluster_api: ClusterApi, plan: ServingPlan, started: Starts, kind: int
) -> None:
    body = (plan.manifest, *plan.dependents)[kind]
    foreign = {**body, "metadata": {"name": plan.run_name, "namespace": plan.namespace}}
    cluster_api.connect().servers.create(foreign)
    with pytest.raises(Refused) as refused:
        started(plan)
    assert refused.value.problem_id == "server-name-taken"
    assert [json is not None for json in held(cluster_api, plan)] == [index == kind for index in range(3)]


def test_a_workload_that_cannot_be_served_reports_every_reason() -> None:
    run = run_with(image="vllm/vllm-tpu:latest", type="l4-1", changes={"model.name": "llama3.1-70b"})
    with pytest.raises(SpecError) as refused:
        plan_serving(run, weights=WEIGHTS)
    assert [problem.id for problem in refused.value.problems] == ["serve-image-not-pinned", "serve-too-large"]


def test_weights_on_the_hub_need_a_token() -> None:
    run = run_with(changes={"secrets": {}})
    assert plan_serving(run, weights=WEIGHTS).inputs.token is None
    with pytest.raises(SpecError) as refused:
        plan_serving(run, weights="me/gemma-2-2b-chat")
    assert [problem.id for problem in refused.value.problems] == ["serve-token-missing"]
    assert plan_serving(run_with(), weights="me/gemma-2-2b-chat").run_name == NAME


def test_the_question_names_the_machine_and_any_answer_but_yes_creates_nothing() -> None:
    questions: list[str] = []

    def decline(question: str) -> bool:
        questions.append(question)
        return False

    with pytest.raises(Refused, match="Nothing was created"):
        confirm_server(server(), ask=decline)
    assert questions == [f"Create {NAME} on one ct6e-standard-1t (v6e-1), until you end it? [y/N] "]
    confirm_server(server(), ask=lambda _question: True)


def test_confirm_server_without_a_terminal_asks_nothing() -> None:
    confirm_server(server(), ask=None)

"""Whatever happens to a create: one object, and the truth about who created it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.test_cluster import CREATE, planned, sent_to
from tests.fakes.clusters import ClusterApi, standing_in
from xsft.base.errors import EnvironmentMissing, Refused, SpecError, Unknown, Unreachable, XsftError
from xsft.cluster.exactly_once import CreatedObject, ExistingObject
from xsft.machine.deadline import Deadline

pytestmark = pytest.mark.loopback

READ_BACK = "^GET .*/jobsets/"
ALL = "."


def stored(api: ClusterApi) -> list[dict[str, Any]]:
    return list(api.world.jobsets().values())


def expect(api: ClusterApi, action: str) -> None:
    """The fate of the next create."""
    if action.startswith("hang"):
        api.expect_silence()
    api.server.fail(CREATE, action=action)


@pytest.mark.parametrize("action", ["cut-after", "hang-after"])
def test_a_response_lost_after_the_create_is_found_created(cluster_api: ClusterApi, action: str) -> None:
    expect(cluster_api, action)
    outcome = cluster_api.connect().create_jobset(sent_to(cluster_api))
    assert isinstance(outcome, CreatedObject)
    assert [o["metadata"]["uid"] for o in stored(cluster_api)] == [outcome.object["metadata"]["uid"]]
    assert len(cluster_api.server.asked(CREATE)) == 1  # looked up, not sent again


@pytest.mark.parametrize("action", ["cut-before", "hang-before"])
def test_a_create_that_never_arrived_is_sent_again(cluster_api: ClusterApi, action: str) -> None:
    expect(cluster_api, action)
    assert isinstance(cluster_api.connect().create_jobset(sent_to(cluster_api)), CreatedObject)
    methods = [request.method for request in cluster_api.server.seen]
    assert methods == ["POST", "GET", "POST"]
    assert len(stored(cluster_api)) == 1


@pytest.mark.parametrize("code", [500, 503, 504])
def test_a_server_error_is_followed_by_a_read_and_another_create(cluster_api: ClusterApi, code: int) -> None:
    cluster_api.server.fail(CREATE, code=code)
    assert isinstance(cluster_api.connect().create_jobset(sent_to(cluster_api)), CreatedObject)
    assert [request.method for request in cluster_api.server.seen] == ["POST", "GET", "POST"]


@pytest.mark.early
def test_another_users_object_after_an_error_is_not_reported_as_created(cluster_api: ClusterApi) -> None:
    first = cluster_api.connect().create_jobset(sent_to(cluster_api), mark="theirs")
    cluster_api.server.fail(CREATE, action="cut-before")
    second = cluster_api.connect().create_jobset(sent_to(cluster_api), mark="ours")
    assert isinstance(second, ExistingObject)
    assert second.object["metadata"]["uid"] == first.object["metadata"]["uid"]


def test_a_create_without_an_answer_or_an_object_is_unknown(cluster_api: ClusterApi) -> None:
    cluster_api.server.fail(CREATE, action="cut-after")
    cluster_api.server.fail(READ_BACK, action="cut-before", times=9)
    with pytest.raises(Unknown, match="result is unknown") as caught:
        cluster_api.connect().create_jobset(sent_to(cluster_api))
    assert (caught.value.problem_id, caught.value.exit_status) == ("create-unclear", 8)
    cluster_api.server.faults.clear()
    assert isinstance(cluster_api.connect().create_jobset(sent_to(cluster_api)), ExistingObject)
    assert len(stored(cluster_api)) == 1


@pytest.mark.parametrize(("action", "exists"), [("hang-after", True), ("hang-before", False)])
def test_a_create_without_an_answer_in_time_is_looked_up_once_more(
    cluster_api: ClusterApi, action: str, exists: bool
) -> None:
    """If no object has the name, it may still come: the error says how to find out."""
    cluster_api.server.fail(CREATE, action=action)
    cluster = cluster_api.connect().by(Deadline.after(1.0))
    if exists:
        assert isinstance(cluster.create_jobset(sent_to(cluster_api)), CreatedObject)
    else:
        with pytest.raises(Unknown, match="did not answer in time") as caught:
            cluster.create_jobset(sent_to(cluster_api))
        kind, name = "jobsets.jobset.x-k8s.io", "deepseek-ultrachat-mcjax"
        look = f"kubectl --context {cluster.context} -n {cluster_api.namespace} get {kind} {name}"
        assert look in caught.value.fix
    assert [request.method for request in cluster_api.server.seen] == ["POST", "GET"]


def test_after_the_deadline_no_create_is_sent(cluster_api: ClusterApi) -> None:
    with pytest.raises(Unreachable, match="Nothing was created"):
        cluster_api.connect().by(Deadline.after(0.0)).create_jobset(sent_to(cluster_api))
    assert cluster_api.server.seen == []


def test_a_busy_server_is_retried_after_its_retry_after(cluster_api: ClusterApi) -> None:
    cluster_api.server.fail(CREATE, code=429, retry_after="7", times=2)
    assert isinstance(cluster_api.connect().create_jobset(sent_to(cluster_api)), CreatedObject)
    assert cluster_api.waits == [7.0, 7.0]
    assert [request.method for request in cluster_api.server.seen] == [
        "POST"
    ] * 3  # 429 was not executed: nothing to look up


def test_a_retry_after_over_the_budget_is_not_waited_for(cluster_api: ClusterApi) -> None:
    cluster_api.server.fail(ALL, code=429, retry_after="3600", times=9)
    with pytest.raises(Unreachable, match="HTTP 429") as caught:
        cluster_api.connect().create_jobset(sent_to(cluster_api))
    assert cluster_api.waits == []
    assert "in 1h" in caught.value.fix


@pytest.mark.parametrize(
    ("how", "refused"),
    [
        ({"code": 401}, Unreachable),
        ({"code": 403, "message": 'User "u" cannot create resource "jobsets"'}, Unreachable),
        ({"code": 403, "message": "exceeded quota: compute"}, SpecError),
        ({"code": 422}, SpecError),
        ({"code": 413}, SpecError),
        ({"code": 404}, EnvironmentMissing),
    ],
    ids=["401", "403 no right", "403 quota", "422", "413", "404"],
)
def test_a_definite_refusal_is_not_retried(
    cluster_api: ClusterApi, how: dict[str, Any], refused: type[XsftError]
) -> None:
    cluster_api.server.fail(CREATE, times=9, **how)
    with pytest.raises(refused):
        cluster_api.connect().create_jobset(sent_to(cluster_api))
    assert len(cluster_api.server.seen) == 1
    assert stored(cluster_api) == []


@pytest.mark.parametrize("how", [{"code": c} for c in (429, 500, 503, 504)] + [{"action": "cut-before"}], ids=str)
def test_reads_are_retried_a_limited_number_of_times(cluster_api: ClusterApi, how: dict[str, Any]) -> None:
    cluster_api.server.fail(ALL, times=3, **how)
    assert cluster_api.connect().list_jobsets(namespace=cluster_api.namespace) == ()
    assert cluster_api.waits == [0.5, 1.0, 2.0]
    cluster_api.server.fail(ALL, times=4, **how)
    with pytest.raises(Unreachable):
        cluster_api.connect().list_jobsets(namespace=cluster_api.namespace)
    assert len(cluster_api.server.seen) == 8


def test_dry_runs_are_retried_like_reads(cluster_api: ClusterApi) -> None:
    cluster_api.server.fail("dryRun=All", action="cut-after", times=2)
    cluster_api.connect().dry_run_jobset(sent_to(cluster_api))
    assert stored(cluster_api) == []


def test_concurrent_submitters_make_one_object_and_one_of_them_created_it(cluster_api: ClusterApi) -> None:
    cluster_api.server.fail(CREATE, action="cut-after")
    cluster_api.server.fail(CREATE, code=500)
    clusters = [cluster_api.connect() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(lambda cluster: cluster.create_jobset(sent_to(cluster_api)), clusters))
    assert [type(o) for o in outcomes].count(CreatedObject) == 1
    assert len({o.object["metadata"]["uid"] for o in outcomes}) == len(stored(cluster_api)) == 1


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with standing_in(tmp_path_factory.mktemp("shared")) as api:
        yield api


TROUBLE = st.one_of(
    st.fixed_dictionaries({"action": st.sampled_from(["cut-before", "cut-after"])}),
    st.fixed_dictionaries({"code": st.sampled_from([409, 429, 500, 503])}),
)


@given(creates=st.lists(TROUBLE, max_size=6), reads=st.lists(TROUBLE, max_size=6))
def test_any_faults_give_at_most_one_object_and_created_only_if_it_is_ours(
    shared: ClusterApi, creates: Any, reads: Any
) -> None:
    server = shared.server
    shared.standin.objects.of("jobset.x-k8s.io/jobsets").clear()
    server.faults.clear()
    for how in creates:
        server.fail(CREATE, **how)
    for how in reads:
        server.fail(READ_BACK, **how)
    try:
        outcome = shared.connect().create_jobset(planned(), mark="ours")
    except (Unreachable, Unknown, Refused):
        assert len(stored(shared)) <= 1
        return
    (only,) = stored(shared)
    assert isinstance(outcome, CreatedObject)
    assert only == outcome.object


def test_two_stand_ins_are_separate_clusters() -> None:
    """The property test above shares a server; the other tests do not."""
    with (
        TemporaryDirectory() as a,
        TemporaryDirectory() as b,
        standing_in(Path(a)) as cluster_apis,
        standing_in(Path(b)) as two,
    ):
        cluster_apis.connect().create_jobset(planned())
        assert two.connect().list_jobsets(namespace="default") == ()

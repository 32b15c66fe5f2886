"""Exactly one object is deleted, whatever happens to the request; nothing of another UID ever is."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from tests.effects.cluster.test_cluster import sent_to
from tests.fakes.clusters import ClusterApi
from tests.until import until
from xsft.effects.cluster.create import Created
from xsft.errors import Unknown, Unreachable

DELETE = "^DELETE .*/jobsets/"
READ_BACK = "^GET .*/jobsets/"


def made(api: ClusterApi) -> tuple[str, str]:
    """Name and UID."""
    outcome = api.connect().create_jobset(sent_to(api))
    assert isinstance(outcome, Created)
    return outcome.object["metadata"]["name"], outcome.object["metadata"]["uid"]


def delete(api: ClusterApi, name: str, uid: str) -> str:
    return api.connect().delete_jobset(name=name, namespace=api.namespace, uid=uid)


def is_gone(api: ClusterApi, name: str) -> bool:
    """A real cluster deletes in the background."""
    return until(lambda: name not in api.world.jobsets(), what=f"{name} to go")


def test_the_one_of_that_uid_is_deleted_with_what_is_its(cluster_api: ClusterApi) -> None:
    name, uid = made(cluster_api)
    cluster_api.world.add_jobset("neighbour")
    assert delete(cluster_api, name, uid) == "deleted"
    assert is_gone(cluster_api, name)
    assert "neighbour" in cluster_api.world.jobsets()
    (sent,) = cluster_api.server.asked(DELETE)
    assert sent.body["preconditions"] == {"uid": uid}
    assert sent.body["propagationPolicy"] == "Background"


def test_another_one_of_that_name_stays(cluster_api: ClusterApi) -> None:
    name, _ = made(cluster_api)
    earlier = "00000000-0000-4000-8000-" + secrets.token_hex(6)
    assert delete(cluster_api, name, earlier) == "other"
    assert name in cluster_api.world.jobsets()


def test_a_conflict_of_another_kind_is_not_another_one(cluster_api: ClusterApi) -> None:
    """The server says 409 also where it could not do it just now."""
    name, uid = made(cluster_api)
    cluster_api.server.fail(DELETE, code=409, message="Operation cannot be fulfilled: please try again")
    with pytest.raises(Unreachable, match="please try again"):
        delete(cluster_api, name, uid)
    assert delete(cluster_api, name, uid) == "deleted"


def test_what_is_not_there_is_gone(cluster_api: ClusterApi) -> None:
    assert delete(cluster_api, "nothing", "u") == "gone"


@pytest.mark.parametrize(
    "fault",
    [{"action": "cut-before"}, {"action": "cut-after"}, {"action": "reset-after"}, {"code": 500}, {"code": 429}],
    ids=lambda fault: str(fault.get("code") or fault["action"]),
)
def test_a_lost_answer_is_requested_again(cluster_api: ClusterApi, fault: dict[str, Any]) -> None:
    name, uid = made(cluster_api)
    cluster_api.server.fail(DELETE, **fault)
    assert delete(cluster_api, name, uid) == "deleted"
    assert is_gone(cluster_api, name)


def test_a_name_that_is_taken_again_meanwhile_stays(cluster_api: ClusterApi) -> None:
    """The first try succeeded, its answer was lost, and another client submitted again."""
    name, uid = made(cluster_api)

    def again() -> None:
        assert is_gone(cluster_api, name)
        made(cluster_api)

    cluster_api.server.fail(DELETE, action="cut-after")
    cluster_api.server.fail(DELETE, code=500, do=again)
    assert delete(cluster_api, name, uid) == "deleted"
    assert cluster_api.world.jobsets()[name]["metadata"]["uid"] != uid


def test_another_one_that_stands_there_when_nothing_answers_proves_that_ours_is_gone(cluster_api: ClusterApi) -> None:
    name, uid = made(cluster_api)
    cluster_api.server.fail(DELETE, action="cut-after")
    cluster_api.server.fail(DELETE, code=500, do=lambda: made(cluster_api))
    cluster_api.server.fail(DELETE, code=500, times=9)
    assert delete(cluster_api, name, uid) == "deleted"
    assert name in cluster_api.world.jobsets()


def test_an_outcome_that_cannot_be_learnt_is_not_known(cluster_api: ClusterApi) -> None:
    name, uid = made(cluster_api)
    cluster_api.server.fail(DELETE, action="cut-after", times=9)
    cluster_api.server.fail(READ_BACK, code=500, times=9)
    with pytest.raises(Unknown, match="its result is unknown") as failed:
        delete(cluster_api, name, uid)
    assert failed.value.problem_id == "delete-unclear"


def test_a_delete_is_unknown_while_the_object_exists(cluster_api: ClusterApi) -> None:
    name, uid = made(cluster_api)
    cluster_api.server.fail(DELETE, action="cut-before", times=9)
    with pytest.raises(Unknown, match="still exists"):
        delete(cluster_api, name, uid)
    assert name in cluster_api.world.jobsets()


def test_a_forbidden_delete_names_the_missing_permission(cluster_api: ClusterApi) -> None:
    name, uid = made(cluster_api)
    cluster_api.server.fail(DELETE, code=403, message='User "u" cannot delete resource "jobsets" in API group')
    with pytest.raises(Unreachable, match="You may not delete jobsets") as failed:
        delete(cluster_api, name, uid)
    assert "--verb=delete" in failed.value.fix
    assert name in cluster_api.world.jobsets()

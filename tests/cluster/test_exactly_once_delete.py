"""One object is deleted, whatever happens to the request; an object with another UID never is."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from tests.cluster.test_cluster import sent_to
from tests.fakes.clusters import ClusterApi
from tests.until import until
from xsft.base.errors import Unknown, Unreachable
from xsft.cluster.exactly_once import CreatedObject

DELETE = "^DELETE .*/jobsets/"
READ_BACK = "^GET .*/jobsets/"


def made(api: ClusterApi) -> tuple[str, str]:
    """Name and UID."""
    outcome = api.connect().create_jobset(sent_to(api))
    assert isinstance(outcome, CreatedObject)
    return outcome.object["metadata"]["name"], outcome.object["metadata"]["uid"]


def delete(api: ClusterApi, name: str, uid: str) -> str:
    return api.connect().delete_jobset(name=name, namespace=api.namespace, uid=uid)


def is_gone(api: ClusterApi, name: str) -> bool:
    """A real cluster deletes in the background."""
    return until(lambda: name not in api.world.jobsets(), what=f"{name} to go")


def test_delete_deletes_the_object_with_the_uid_and_its_dependents(cluster_api: ClusterApi) -> None:
    name, uid = made(cluster_api)
    cluster_api.world.add_jobset("neighbour")
    assert delete(cluster_api, name, uid) == "deleted"
    assert is_gone(cluster_api, name)
    assert "neighbour" in cluster_api.world.jobsets()
    (sent,) = cluster_api.server.asked(DELETE)
    assert sent.body["preconditions"] == {"uid": uid}
    assert sent.body["propagationPolicy"] == "Background"


def test_delete_keeps_an_object_with_another_uid(cluster_api: ClusterApi) -> None:
    name, _ = made(cluster_api)
    earlier = "00000000-0000-4000-8000-" + secrets.token_hex(6)
    assert delete(cluster_api, name, earlier) == "other"
    assert name in cluster_api.world.jobsets()


def test_a_transient_conflict_is_not_reported_as_another_object(cluster_api: ClusterApi) -> None:
    """The server also answers 409 if it could not delete the object at that moment."""
    name, uid = made(cluster_api)
    cluster_api.server.fail(DELETE, code=409, message="Operation cannot be fulfilled: please try again")
    with pytest.raises(Unreachable, match="please try again"):
        delete(cluster_api, name, uid)
    assert delete(cluster_api, name, uid) == "deleted"


def test_a_missing_object_is_gone(cluster_api: ClusterApi) -> None:
    assert delete(cluster_api, "nothing", "u") == "gone"


@pytest.mark.parametrize(
    "fault",
    [{"action": "cut-before"}, {"action": "cut-after"}, {"action": "reset-after"}, {"code": 500}, {"code": 429}],
    ids=lambda fault: str(fault.get("code") or fault["action"]),
)
def test_a_delete_without_a_response_is_retried(cluster_api: ClusterApi, fault: dict[str, Any]) -> None:
    name, uid = made(cluster_api)
    cluster_api.server.fail(DELETE, **fault)
    assert delete(cluster_api, name, uid) == "deleted"
    assert is_gone(cluster_api, name)


def test_a_new_object_under_the_name_of_a_deleted_one_is_kept(cluster_api: ClusterApi) -> None:
    """The first delete succeeded, its response was lost, and another client created the name again."""
    name, uid = made(cluster_api)

    def again() -> None:
        assert is_gone(cluster_api, name)
        made(cluster_api)

    cluster_api.server.fail(DELETE, action="cut-after")
    cluster_api.server.fail(DELETE, code=500, do=again)
    assert delete(cluster_api, name, uid) == "deleted"
    assert cluster_api.world.jobsets()[name]["metadata"]["uid"] != uid


def test_a_new_object_under_the_name_proves_the_delete(cluster_api: ClusterApi) -> None:
    name, uid = made(cluster_api)
    cluster_api.server.fail(DELETE, action="cut-after")
    cluster_api.server.fail(DELETE, code=500, do=lambda: made(cluster_api))
    cluster_api.server.fail(DELETE, code=500, times=9)
    assert delete(cluster_api, name, uid) == "deleted"
    assert name in cluster_api.world.jobsets()


def test_a_delete_without_an_answer_or_a_read_is_unknown(cluster_api: ClusterApi) -> None:
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

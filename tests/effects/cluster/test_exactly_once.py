"""The results of a create and a delete for each sequence of responses; nothing is sent."""

from __future__ import annotations

from typing import Any

import pytest

from tests.effects.cluster.answers import FORBIDDEN, LOST, TRIES, UNSENT, Answers
from xsft.effects.cluster.create import CreatedObject, ExistingObject, create, without
from xsft.effects.cluster.delete import delete
from xsft.errors import SpecError, Unreachable, XsftError
from xsft.problems import error
from xsft.reading.resources import JOBSETS
from xsft.spec.secrets import HIDDEN

NONE = (404, {"message": 'jobsets "a" not found', "details": {"name": "a", "kind": "jobsets"}})
CONFLICT = (409, {"message": "please try again"})
ERROR = (500, {"message": "etcd"})


def there(*, uid: str = "u", manager: str = "kubectl", **metadata: str) -> tuple[int, dict[str, Any]]:
    return 200, {"metadata": {"name": "a", "uid": uid, "managedFields": [{"manager": manager}], **metadata}}


OURS, THEIRS = there(manager="xsft-m"), there()
CREATES: dict[str, tuple[tuple[Any, ...], object]] = {
    "created": ((OURS,), CreatedObject),
    "answer lost": ((LOST, OURS), CreatedObject),
    "answer lost, another object exists": ((LOST, THEIRS), ExistingObject),
    "server error after the create": ((ERROR, OURS), CreatedObject),
    "name taken": ((CONFLICT, THEIRS), ExistingObject),
    "name taken meanwhile": ((CONFLICT, NONE, OURS), CreatedObject),
    "not sent": ((UNSENT, OURS), CreatedObject),
    "never arrives": ((LOST, NONE) * TRIES, ("unreachable", "It was not created.")),
    "never sent": ((UNSENT,) * TRIES, ("unreachable", "Nothing was created.")),
    "forbidden": ((FORBIDDEN,), ("forbidden", "You may not create")),
    "forbidden after a conflict": ((CONFLICT, NONE, FORBIDDEN), ("forbidden", "You may not create")),
    "forbidden after not sent": ((UNSENT, FORBIDDEN), ("forbidden", "You may not create")),
    "forbidden after a lost answer": ((LOST, NONE, FORBIDDEN), ("create-unclear", "its result is unknown")),
    "read forbidden": ((LOST, FORBIDDEN), ("create-unclear", "Reading it back failed too: You may not get")),
}


@pytest.mark.parametrize("case", CREATES)
def test_a_create_is_sent_again_only_if_it_had_no_effect(case: str) -> None:
    given, expected = CREATES[case]
    answers = Answers(*given)
    metadata = {"name": "a", "namespace": "team"}
    if isinstance(expected, type):
        made = create(answers.api, JOBSETS, {"metadata": metadata}, mark="m")
        assert type(made) is expected
        assert made.object == given[-1][1]
    else:
        concluded(expected, lambda: create(answers.api, JOBSETS, {"metadata": metadata}, mark="m"))
    assert answers.left == []


DELETES: dict[str, tuple[tuple[Any, ...], object]] = {
    "deleted": (((200, {}),), "deleted"),
    "missing": ((NONE,), "gone"),
    "answer lost": ((LOST, NONE), "deleted"),
    "server error after the delete": ((ERROR, NONE), "deleted"),
    "not sent": ((UNSENT, NONE), "gone"),
    "answer lost, name taken again": ((LOST, CONFLICT, there(uid="other")), "deleted"),
    "answer lost, gone during a conflict": ((LOST, CONFLICT, NONE), "deleted"),
    "answer lost, other conflict": (
        (LOST, CONFLICT, there()),
        ("delete-unclear", "it still exists"),
    ),
    "another object under the name": ((CONFLICT, there(uid="other")), "other"),
    "gone during a conflict": ((CONFLICT, NONE), "gone"),
    "other conflict": ((CONFLICT, there()), ("cluster-error", "HTTP 409 please try again")),
    "conflict, read forbidden": ((CONFLICT, FORBIDDEN), ("delete-unclear", "You may not get")),
    "forbidden": ((FORBIDDEN,), ("forbidden", "You may not delete")),
    "never sent": ((UNSENT,) * TRIES, ("unreachable", "Nothing was deleted.")),
    "errors, object gone": ((*(ERROR,) * TRIES, NONE), "deleted"),
    "errors, another object exists": ((*(ERROR,) * TRIES, there(uid="other")), "deleted"),
    "errors, object being deleted": ((*(ERROR,) * TRIES, there(deletionTimestamp="now")), "deleted"),
    "errors, object exists": ((*(ERROR,) * TRIES, there()), ("delete-unclear", "it still exists")),
    "errors, read forbidden": ((*(ERROR,) * TRIES, FORBIDDEN), ("delete-unclear", "You may not get")),
    "forbidden after a lost answer": ((LOST, FORBIDDEN, there()), ("delete-unclear", "it still exists")),
}


@pytest.mark.parametrize("case", DELETES)
def test_the_result_of_a_delete_follows_from_the_object_under_the_name(case: str) -> None:
    given, expected = DELETES[case]
    answers = Answers(*given)
    if isinstance(expected, str):
        assert delete(answers.api, JOBSETS, name="a", namespace="team", uid="u") == expected
    else:
        concluded(expected, lambda: delete(answers.api, JOBSETS, name="a", namespace="team", uid="u"))
    assert answers.left == []
    options = {"preconditions": {"uid": "u"}, "propagationPolicy": "Background"}
    asked = [body for method, body in answers.sent if method == "DELETE"]
    assert asked == [{"apiVersion": "v1", "kind": "DeleteOptions", **options}] * len(asked)


def concluded(expected: Any, act: Any) -> None:
    with pytest.raises(XsftError) as caught:
        act()
    assert caught.value.problem_id == expected[0]
    assert expected[1] in str(caught.value)
    assert caught.value.fix


def test_quoted_values_are_removed_from_an_error() -> None:
    failed = without(Unreachable("abc, ab", fix="f", id="i", again="never"), ("ab", "abc", ""))
    (problem,) = failed.problems
    assert problem.message == f"{HIDDEN}, {HIDDEN}"
    assert (problem.fix, problem.id, problem.again) == ("f", "i", "never")
    refused = without(SpecError((error("i", "where", "ab and abc", "f"),)), ("ab", "abc"))
    assert refused.problems == (error("i", "where", f"{HIDDEN} and {HIDDEN}", "f"),)

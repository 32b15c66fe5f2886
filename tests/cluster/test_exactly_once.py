"""The results of a create and a delete for each sequence of responses; nothing is sent."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.cluster.answers import FORBIDDEN, LOST, TRIES, UNSENT, Answers
from xsft.base.errors import SpecError, Unreachable, XsftError
from xsft.base.problems import error
from xsft.base.secrets import HIDDEN
from xsft.cluster.exactly_once import CreatedObject, ExistingObject, create, delete, without_values
from xsft.cluster.resources import JOBSETS

NONE = (404, {"message": 'jobsets "a" not found', "details": {"name": "a", "kind": "jobsets"}})
CONFLICT = (409, {"message": "please try again"})
ERROR = (500, {"message": "etcd"})
PATH = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets"


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
    "never arrives": ((LOST, NONE) * TRIES, ("create-unclear", "its result is unknown")),
    "never sent": ((UNSENT,) * TRIES, ("unreachable", "Nothing was created.")),
    "forbidden": ((FORBIDDEN,), ("forbidden", "You may not create jobsets")),
    "forbidden after a conflict": ((CONFLICT, NONE, FORBIDDEN), ("forbidden", "You may not create jobsets")),
    "forbidden after not sent": ((UNSENT, FORBIDDEN), ("forbidden", "You may not create jobsets")),
    "forbidden after a lost answer": ((LOST, NONE, FORBIDDEN), ("create-unclear", "its result is unknown")),
    "read forbidden": ((LOST, FORBIDDEN), ("create-unclear", "Last answer: You may not get")),
}


@pytest.mark.parametrize("case", CREATES)
def test_a_create_is_sent_again_only_if_it_had_no_effect(case: str) -> None:
    replies, expected = CREATES[case]
    answers = Answers(*replies)
    metadata = {"name": "a", "namespace": "team"}
    if isinstance(expected, type):
        created = create(answers.api, JOBSETS, {"metadata": metadata}, mark="m")
        assert type(created) is expected
        assert created.object == replies[-1][1]
    else:
        concluded(expected, lambda: create(answers.api, JOBSETS, {"metadata": metadata}, mark="m"))
    assert answers.left == []
    for (method, body), expected_url in zip(answers.sent, map(urlsplit, answers.paths), strict=True):
        strict = {"fieldValidation": ["Strict"], "fieldManager": ["xsft-m"]}
        query = strict if method == "POST" else {}
        named = "" if method == "POST" else "/a"
        assert (expected_url.path, parse_qs(expected_url.query)) == (f"{PATH}{named}", query)
        assert body == ({"metadata": metadata} if method == "POST" else None)


@pytest.mark.parametrize("case", CREATES)
def test_the_object_is_looked_up_after_each_create_that_may_have_had_an_effect(case: str) -> None:
    answers = Answers(*CREATES[case][0])
    with suppress(XsftError):
        create(answers.api, JOBSETS, {"metadata": {"name": "a", "namespace": "team"}}, mark="m")
    methods = [method for method, _ in answers.sent]
    for before, following in zip(CREATES[case][0], methods[1:], strict=False):
        assert following == ("GET" if before in (LOST, ERROR, CONFLICT) else "POST")


def test_each_create_has_a_mark_of_its_own() -> None:
    marks = set()
    for _ in range(2):
        answers = Answers(OURS)
        create(answers.api, JOBSETS, {"metadata": {"name": "a"}}, mark=None)
        (mark,) = parse_qs(urlsplit(answers.paths[0]).query)["fieldManager"]
        assert re.fullmatch("xsft-[0-9a-f]{16}", mark)
        marks.add(mark)
    assert len(marks) == 2


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
    replies, expected = DELETES[case]
    answers = Answers(*replies)
    if isinstance(expected, str):
        assert delete(answers.api, JOBSETS, name="a", namespace="team", uid="u") == expected
    else:
        concluded(expected, lambda: delete(answers.api, JOBSETS, name="a", namespace="team", uid="u"))
    assert answers.left == []
    options = {"preconditions": {"uid": "u"}, "propagationPolicy": "Background"}
    assert set(answers.paths) == {f"{PATH}/a"}
    bodies = [body for method, body in answers.sent if method == "DELETE"]
    assert bodies == [{"apiVersion": "v1", "kind": "DeleteOptions", **options}] * len(bodies)


def concluded(expected: Any, act: Any) -> None:
    with pytest.raises(XsftError) as caught:
        act()
    assert caught.value.problem_id == expected[0]
    assert expected[1] in str(caught.value)
    assert caught.value.fix


def test_quoted_values_are_removed_from_an_error() -> None:
    failed = without_values(Unreachable("abc, bc", fix="f", id="i", again="never"), ("bc", "abc", ""))
    (problem,) = failed.problems
    assert problem.message == f"{HIDDEN}, {HIDDEN}"
    assert (problem.fix, problem.id, problem.again) == ("f", "i", "never")
    refused = without_values(SpecError((error("i", "where", "ab and abc", "f"),)), ("ab", "abc"))
    assert refused.problems == (error("i", "where", f"{HIDDEN} and {HIDDEN}", "f"),)

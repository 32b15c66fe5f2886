"""A reply or a lost request says what it means: its message, its causes, and whether trying again helps."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest
from urllib3 import HTTPResponse

from xsft.base.problems import RetryAdvice
from xsft.cluster.access import Access
from xsft.cluster.answers import MAX_MESSAGE, LostAnswer, Reply, read_object, reply_of

ACCESS = Access(context="lab", kubeconfig=(Path("config"),), gke=False)


def reply(status: int = 200, **body: Any) -> Reply:
    return Reply(status=status, body=body)


PAGE = b" <html>Sign in</html>"
NOT_KUBERNETES = LostAnswer(
    reason="https://lab.example answers, but not as a Kubernetes API server.",
    sent=True,
    fix="Check the server of the context lab, and proxies (HTTPS_PROXY, NO_PROXY).",
    id="not-served",
    again="unsure",
)


def read(status: int, content: bytes, **headers: str) -> Reply | LostAnswer:
    response = HTTPResponse(status=status, headers={name.replace("_", "-"): text for name, text in headers.items()})
    return reply_of(content, response, read=read_object, access=ACCESS, host="https://lab.example")


def test_only_four_statuses_may_be_retried() -> None:
    assert [status for status in range(200, 600) if reply(status).passes] == [429, 500, 503, 504]


def test_a_reply_is_ok_from_200_to_299() -> None:
    assert [status for status in (199, 200, 299, 300) if reply(status).ok] == [200, 299]


def test_a_message_is_one_redacted_line_of_limited_length() -> None:
    token = f"hf_{secrets.token_hex(15)}"
    assert reply(403, message=f"no\n  {token}").message.startswith("no ")
    assert token not in reply(403, message=f"no {token}").message
    assert len(reply(403, message="x" * 2 * MAX_MESSAGE).message) == 1500
    assert Reply(status=500, body="no JSON").reason == "HTTP 500 no JSON"
    assert Reply(status=500, body=None).message == ""


@pytest.mark.parametrize(
    "body",
    [None, "text", [], {}, {"details": None}, {"details": "text"}, {"details": {"causes": 0}}],
    ids=["none", "text", "list", "no details", "details=null", "details are text", "causes are a number"],
)
def test_a_body_of_another_form_has_no_details(body: object) -> None:
    found = Reply(status=404, body=body)
    assert found.causes == ()
    assert found.not_served
    assert not found.missing_namespace


def test_causes_are_fields_with_redacted_messages() -> None:
    token = f"hf_{secrets.token_hex(15)}"
    causes = [{"field": "spec.a", "message": f"bad {token}"}, "no cause", {}]
    first, second = reply(422, details={"causes": causes}).causes
    assert (first[0], token in first[1], first[1].startswith("bad ")) == ("spec.a", False, True)
    assert second == ("", "")


def test_a_missing_object_kind_and_namespace_are_distinguished() -> None:
    gone = reply(404, details={"name": "a", "kind": "jobsets"})
    assert (gone.not_served, gone.missing_namespace) == (False, False)
    namespace = reply(404, details={"name": "team", "kind": "namespaces"})
    assert (namespace.not_served, namespace.missing_namespace) == (False, True)
    assert not reply(403, details={}).not_served


def test_only_a_403_that_rbac_did_not_send_is_of_admission() -> None:
    quota = 'jobsets.jobset.x-k8s.io "a" is forbidden: exceeded quota'
    assert reply(403, message=quota).by_admission
    assert not reply(404, message=quota).by_admission
    assert not reply(403, message='User "u" cannot create resource "jobsets" in API group "x"').by_admission
    assert not reply(403, message="this action requires one of [container.pods.create]").by_admission


@pytest.mark.parametrize("again", ["helps", "unsure", "never"])
def test_a_lost_request_becomes_an_error_with_its_fix_and_id(again: RetryAdvice) -> None:
    lost_answer = LostAnswer(reason="No route.", sent=True, fix="Check the VPN.", id="tls", again=again)
    failed = lost_answer.failed(what="It may exist.")
    assert failed.message == "No route. It may exist."
    assert (failed.fix, failed.problem_id, failed.again) == ("Check the VPN.", "tls", again)
    assert lost_answer.failed().message == "No route."
    assert lost_answer.passes == (again == "helps")


@pytest.mark.parametrize("content", [PAGE, b"", b"[1]", b"null"])
def test_a_successful_response_without_an_object_is_not_of_kubernetes(content: bytes) -> None:
    assert read(200, content) == NOT_KUBERNETES


def test_redirects_and_web_pages_are_not_of_kubernetes() -> None:
    for status in (300, 301, 302, 307, 399):
        assert read(status, b"{}") == read(status, PAGE) == NOT_KUBERNETES
    for status in (400, 403, 404, 405):
        assert read(status, PAGE) == NOT_KUBERNETES


@pytest.mark.parametrize("status", [401, 502])
def test_a_web_page_of_a_login_or_a_gateway_is_kept(status: int) -> None:
    found = read(status, PAGE)
    assert isinstance(found, Reply)
    assert found.message == "(a web page instead of an answer)"


def test_a_cut_off_answer_is_lost_and_text_of_an_error_is_kept() -> None:
    for status in (200, 404):
        answer = read(status, b'{"kind": "Sta')
        assert isinstance(answer, LostAnswer)
        assert (answer.id, answer.again, answer.sent) == ("unreachable", "helps", True)
    told = read(503, "Übervoll".encode(), Retry_After="7")
    assert isinstance(told, Reply)
    assert (told.message, told.retry_after_s) == ("Übervoll", 7.0)
    assert isinstance(read(200, b"fine"), LostAnswer)
    assert read(299, b'{"a": 1}') == Reply(status=299, body={"a": 1})

"""The rights of the Google service account of the pods, from stand-ins of Google's APIs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials

from tests.checks.test_demand import demand
from tests.fakes.loopback import serving_http
from xsft.checks.pod_identity import PodRights
from xsft.launch.admission import OF_BUCKET, GoogleIam, connect_iam
from xsft.machine.google_login import google_session

EMAIL = "trainer@my-project.iam.gserviceaccount.com"
MEMBER = "serviceAccount:my-project.svc.id.goog[default/default]"
POLICY = {"bindings": [{"role": "roles/iam.workloadIdentityUser", "members": [MEMBER]}]}
TOKEN = {"accessToken": "of-the-pod", "expireTime": "2026-11-23T08:00:00Z"}


@contextmanager
def google(answers: dict[str, dict[str, Any]]) -> Iterator[tuple[GoogleIam, list[str]]]:
    """APIs that answer by the last word of the path, and 403 where they have no answer; what was asked, with whose
    token.
    """
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.do_GET()

        def do_GET(self) -> None:
            word = self.path.partition("?")[0].replace(":", "/").rsplit("/", 1)[1]
            paths.append(f"{word} {self.headers.get('Authorization', '')}".strip())
            body = json.dumps(answers.get(word, {"error": {"code": 403}})).encode()
            self.send_response(200 if word in answers else 403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    session = google_session(AnonymousCredentials())  # type: ignore[no-untyped-call]
    with serving_http(Handler) as url:
        yield GoogleIam(session=session, iam=url, credentials=url, storage=url, compute=url), paths


def held(*names: str) -> dict[str, Any]:
    return {"permissions": list(names)} if names else {}


@pytest.mark.parametrize(
    ("answers", "pod_rights"),
    [
        ({}, PodRights(email=EMAIL)),
        ({"getIamPolicy": POLICY}, PodRights(email=EMAIL, bound=True)),
        ({"getIamPolicy": {"etag": "x"}}, PodRights(email=EMAIL, bound=False)),
    ],
    ids=["every read forbidden", "bound", "unbound"],
)
def test_rights_are_read_without_a_token_of_the_account(answers: dict[str, Any], pod_rights: PodRights) -> None:
    with google({**answers, "generateAccessToken": TOKEN}) as (iam, asked):
        assert iam.rights(EMAIL, demand()) == pod_rights
    assert asked == ["getIamPolicy"]


@pytest.mark.parametrize(
    ("answers", "lacking"),
    [
        ({}, None),
        ({"generateAccessToken": TOKEN}, None),
        ({"generateAccessToken": TOKEN, "testPermissions": held(*OF_BUCKET)}, ()),
        ({"generateAccessToken": TOKEN, "testPermissions": held(*OF_BUCKET[1:])}, OF_BUCKET[:1]),
    ],
    ids=["may not impersonate", "bucket does not answer", "enough rights", "too few rights"],
)
def test_lacking_permissions_are_tested_with_a_token_of_the_account(
    answers: dict[str, Any], lacking: tuple[str, ...] | None
) -> None:
    with google(answers) as (iam, asked):
        assert iam.lacking_permissions(EMAIL, "my-bucket") == lacking
    assert asked == ["generateAccessToken", "testPermissions Bearer of-the-pod"][: 1 + bool(answers)]


SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"


@pytest.mark.parametrize(
    ("answers", "pod_rights"),
    [
        ({}, PodRights()),
        ({"gke-1": {"serviceAccounts": [{"email": EMAIL, "scopes": [SCOPE]}]}}, PodRights(email=EMAIL, writes=False)),
        ({"gke-1": {"serviceAccounts": [{"email": EMAIL}]}}, PodRights(email=EMAIL)),
    ],
    ids=["every read forbidden", "read-only scopes", "unknown scopes"],
)
def test_rights_returns_the_permissions_of_a_nodes_account(answers: dict[str, Any], pod_rights: PodRights) -> None:
    with google(answers) as (iam, asked):
        assert iam.rights("gce://my-project/us-east5-b/gke-1", demand()) == pod_rights
    assert asked[0] == "gke-1"


def test_connect_iam_is_none_without_a_login() -> None:
    assert connect_iam({"HOME": "/nowhere", "NO_GCE_CHECK": "true"}) is None

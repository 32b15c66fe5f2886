"""A repository is created in Artifact Registry if the user asks for it, and every refusal says what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from tests.fakes.loopback import serving_http
from xsft.base.errors import UsageError, XsftError
from xsft.image.artifact_registry import create_repository
from xsft.image.login import Login

REGISTRY = "us-docker.pkg.dev/my-project/xsft"
PARENT = "/v1/projects/my-project/locations/us"
OPERATION = {"name": f"{PARENT.removeprefix('/v1/')}/operations/1"}


@dataclass
class Api:
    """Artifact Registry's API: answers one after the other, the last one again and again."""

    url: str = ""
    answers: list[tuple[int, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def create(self, registry: str = REGISTRY) -> None:
        create_repository(
            registry,
            env={},
            say=self.said.append,
            api=f"{self.url}/v1",
            find_login=lambda _host, env: Login(user="u", secret="of-google"),
            sleep=self.waits.append,
        )


@pytest.fixture
def api() -> Iterator[Api]:
    found = Api()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(f"{self.command} {self.path}")
            if size := int(self.headers.get("Content-Length") or 0):
                found.bodies.append(json.loads(self.rfile.read(size)))
            status, answer = found.answers.pop(0) if len(found.answers) > 1 else found.answers[0]
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815

    with serving_http(Handler) as url:
        found.url = url
        yield found


def test_a_repository_for_images_is_created_and_waited_for(api: Api) -> None:
    api.answers = [(200, OPERATION), (200, {**OPERATION, "done": False}), (200, {**OPERATION, "done": True})]
    api.create()
    polled = f"GET {PARENT}/operations/1"
    assert api.asked == [f"POST {PARENT}/repositories?repositoryId=xsft", polled, polled]
    assert api.bodies[0]["format"] == "DOCKER"
    assert api.waits == [1.0, 2.0]
    assert api.said == [f"creating {REGISTRY}"]


def test_a_repository_that_another_user_created_meanwhile_is_success(api: Api) -> None:
    api.answers = [(409, {"error": {"message": "the repository already exists"}})]
    api.create()


def refusal(message: str, reason: str = "") -> dict[str, Any]:
    return {"error": {"message": message, "details": [{"reason": reason}] if reason else []}}


@pytest.mark.parametrize(
    ("answers", "id", "words"),
    [
        ([(401, refusal("no credentials"))], "registry-login-refused", "gcloud auth"),
        ([(403, refusal("Permission 'artifactregistry.repositories.create' denied on resource"))],
         "registry-forbidden", "roles/artifactregistry.admin"),
        ([(403, refusal("API has not been used", "SERVICE_DISABLED"))], "artifact-registry-disabled", "enable"),
        ([(403, refusal("Consumer", "CONSUMER_INVALID"))], "project-missing", "gcloud projects list"),
        ([(400, refusal("invalid location"))], "artifact-repository", "locations list"),
        ([(429, refusal("Quota exceeded"))], "registry-rate-limited", "a few minutes"),
        ([(503, b"<html>")], "registry-unreachable", "again"),
        ([(200, [1])], "registry-unreachable", "again"),
        ([(200, OPERATION)], "registry-unreachable", "again"),
        ([(200, {**OPERATION, "done": True, "error": {"message": "Permission denied"}})], "registry-forbidden", "Ask"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_to_do(api: Api, answers: list[tuple[int, Any]], id: str, words: str) -> None:
    api.answers = answers
    with pytest.raises(XsftError) as refused:
        api.create()
    assert (refused.value.problem_id, words in refused.value.fix) == (id, True), refused.value.fix


def test_repositories_of_other_registries_are_not_created(api: Api) -> None:
    with pytest.raises(UsageError, match="is not in Artifact Registry"):
        api.create("registry.example.com/team")
    assert api.asked == []

"""A repository is created in Artifact Registry if the user asks for it, and every refusal says what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.fakes.served import Answer, Served, serving
from xsft.base.errors import UsageError, XsftError
from xsft.image.login import Login, create_repository

REGISTRY = "us-docker.pkg.dev/my-project/xsft"
PARENT = "/v1/projects/my-project/locations/us"
OPERATION_PATH = f"{PARENT}/operations/1"
OPERATION = {"name": OPERATION_PATH.removeprefix("/v1/")}


@dataclass
class Api:
    """Artifact Registry's API: answers a creation, and questions for its operation one after the other."""

    served: Served
    waits: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def create(self, created: Answer, *polled: Answer, registry: str = REGISTRY) -> None:
        self.served.answer(f"{PARENT}/repositories", created)
        self.served.answer(OPERATION_PATH, *(polled or (created,)))
        create_repository(
            registry,
            env={},
            say=self.said.append,
            api=f"http://{self.served.address}/v1",
            find_login=lambda _host, env: Login(user="u", secret="of-google"),
            sleep=self.waits.append,
        )


@pytest.fixture
def api() -> Iterator[Api]:
    with serving() as served:
        yield Api(served)


def test_a_repository_for_images_is_created_and_waited_for(api: Api) -> None:
    api.create(Answer(200, OPERATION), Answer(200, OPERATION), Answer(200, {**OPERATION, "done": True}))
    requests = [(f"POST {PARENT}/repositories?repositoryId=xsft"), *[f"GET {OPERATION_PATH}"] * 2]
    assert api.served.asked == [(request, "Bearer of-google") for request in requests]
    assert json.loads(api.served.bodies[0])["format"] == "DOCKER"
    assert (api.waits, api.said) == ([1.0, 2.0], [f"creating {REGISTRY}"])


def test_a_repository_that_another_user_created_meanwhile_is_success(api: Api) -> None:
    api.create(Answer(409, {"error": {"message": "the repository already exists"}}))


def refusal(message: str, reason: str = "") -> dict[str, Any]:
    return {"error": {"message": message, "details": [{"reason": reason}] if reason else []}}


@pytest.mark.parametrize(
    ("answer", "id", "words"),
    [
        (Answer(401, refusal("no credentials")), "registry-login-refused", "gcloud auth"),
        (Answer(403, refusal("Permission 'artifactregistry.repositories.create' denied on resource")),
         "registry-forbidden", "roles/artifactregistry.admin"),
        (Answer(403, refusal("API has not been used", "SERVICE_DISABLED")), "artifact-registry-disabled", "enable"),
        (Answer(403, refusal("Consumer", "CONSUMER_INVALID")), "project-missing", "gcloud projects list"),
        (Answer(400, refusal("invalid location")), "artifact-repository", "locations list"),
        (Answer(429, refusal("Quota exceeded")), "registry-rate-limited", "a few minutes"),
        (Answer(503, b"<html>"), "registry-unreachable", "again"),
        (Answer(200, [1]), "registry-unreachable", "again"),
        (Answer(200, OPERATION), "registry-unreachable", "again"),
        (Answer(200, {**OPERATION, "done": True, "error": {"message": "Permission denied"}}), "registry-forbidden",
         "Ask"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_to_do(api: Api, answer: Answer, id: str, words: str) -> None:
    with pytest.raises(XsftError) as refused:
        api.create(answer)
    assert (refused.value.problem_id, words in refused.value.fix) == (id, True), refused.value.fix


def test_repositories_of_other_registries_are_not_created(api: Api) -> None:
    with pytest.raises(UsageError, match="is not in Artifact Registry"):
        api.create(Answer(), registry="registry.example.com/team")
    assert api.served.asked == []

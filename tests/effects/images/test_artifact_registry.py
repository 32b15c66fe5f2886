"""Over HTTP, against a small server: what is found, made, listed, and why it is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from google.auth.credentials import AnonymousCredentials

from tests.engine.daemon import Engine
from tests.engine.registryserver import Registry
from tests.engine.steps import step
from tests.fakes.artifact_registry import FakeArtifactRegistry, Refusal, artifact_registry
from xsft.effects.images import artifact_registry as module
from xsft.effects.images import docker_client
from xsft.effects.images.artifact_registry import ArtifactRegistry
from xsft.effects.images.docker_build import build, find_client
from xsft.effects.images.docker_push import pusher
from xsft.effects.machine.google_login import google_session
from xsft.errors import EnvironmentMissing, Unreachable, UsageError, XsftError
from xsft.image.artifact_names import Repository

TEAM = Repository(project="my-project", location="us", name="xsft")


@pytest.fixture
def fake() -> Iterator[FakeArtifactRegistry]:
    with artifact_registry() as serving:
        yield serving


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def client(fake: FakeArtifactRegistry, waits: list[float]) -> Iterator[ArtifactRegistry]:
    with asking(fake, waits) as client:
        yield client


@contextmanager
def asking(fake: FakeArtifactRegistry, waits: list[float]) -> Iterator[ArtifactRegistry]:
    with google_session(AnonymousCredentials()) as session:
        yield ArtifactRegistry(session=session, url=f"http://{fake.host}", sleep=waits.append)


def test_a_repository_that_exists_is_found_and_left_alone(fake: FakeArtifactRegistry, client: ArtifactRegistry) -> None:
    fake.add(TEAM.path)
    assert client.ensure(TEAM, create=True) == "found"
    assert [line.split()[0] for line in fake.asked] == ["GET"]


def test_a_missing_one_is_made_only_where_that_was_requested(
    fake: FakeArtifactRegistry, client: ArtifactRegistry
) -> None:
    with pytest.raises(EnvironmentMissing) as missing:
        client.ensure(TEAM, create=False)
    assert missing.value.problem_id == "repository-missing"
    assert "--create" in missing.value.fix
    assert "gcloud artifacts repositories create xsft --repository-format=docker --location=us" in missing.value.fix
    told: list[str] = []
    assert client.ensure(TEAM, create=True, on_progress=told.append) == "created"
    assert client.ensure(TEAM, create=False) == "found"
    assert told == ["creating us-docker.pkg.dev/my-project/xsft"]


def test_another_user_made_it_at_the_same_moment(fake: FakeArtifactRegistry, client: ArtifactRegistry) -> None:
    fake.refusals.append(Refusal("^POST", 409, "ALREADY_EXISTS", "the repository already exists"))
    assert client.ensure(TEAM, create=True) == "created"


def test_packages_of_another_format_are_no_place_for_images(
    fake: FakeArtifactRegistry, client: ArtifactRegistry
) -> None:
    fake.add(TEAM.path, format="PYTHON")
    with pytest.raises(UsageError, match="PYTHON") as refused:
        client.ensure(TEAM, create=True)
    assert refused.value.problem_id == "repository-not-docker"


DENIED = "Permission '{}' denied on resource '//artifactregistry.googleapis.com/x' (or it may not exist)."


def test_a_repository_that_is_named_by_its_path_is_no_missing_project(
    fake: FakeArtifactRegistry, client: ArtifactRegistry
) -> None:
    message = f'Repository "{TEAM.path}" not found.'
    fake.refusals.append(Refusal("^GET", 404, "NOT_FOUND", message, ""))
    assert client.format_of(TEAM) is None
    fake.refusals[:] = [Refusal("^GET", 404, "NOT_FOUND", "Project 'my-project' not found.", "")]
    with pytest.raises(XsftError) as refused:
        client.format_of(TEAM)
    assert refused.value.problem_id == "project-missing"


@pytest.mark.parametrize(
    ("on", "code", "message", "reason", "id", "names"),
    [
        ("^GET", 403, DENIED.format("artifactregistry.repositories.get"), "", "registry-forbidden",
         "roles/artifactregistry.reader"),
        ("^POST", 403, DENIED.format("artifactregistry.repositories.create"), "", "registry-forbidden",
         "roles/artifactregistry.admin"),
        ("^GET", 403, "Artifact Registry API has not been used in project 1 before or it is disabled.",
         "SERVICE_DISABLED", "artifact-registry-disabled", "gcloud services enable artifactregistry.googleapis.com"),
        ("^GET", 403, "Permission denied on resource project my-project.", "CONSUMER_INVALID", "project-missing",
         "my-project"),
        ("^GET", 403, "Permission denied on 'locations/us-west99' (or it may not exist).", "", "artifact-repository",
         "gcloud artifacts locations list"),
        ("^GET", 400, "Location us-west99 is not supported.", "", "artifact-repository", "location 'us'"),
        ("^GET", 401, "Request had invalid authentication credentials.", "", "registry-login-missing",
         "gcloud auth application-default login"),
        ("^GET", 429, "Quota exceeded", "", "registry-rate-limited", "Try again"),
        ("^GET", 503, "backend", "", "registry-unreachable", "status.cloud.google.com"),
    ],
)  # fmt: skip
def test_a_refusal_names_what_mends_it(
    fake: FakeArtifactRegistry,
    client: ArtifactRegistry,
    on: str,
    code: int,
    message: str,
    reason: str,
    id: str,
    names: str,
) -> None:
    fake.refusals.append(Refusal(on, code, "X", message, reason))
    with pytest.raises(XsftError) as refused:
        client.ensure(TEAM, create=True)
    assert refused.value.problem_id == id
    assert names in f"{refused.value.message} {refused.value.fix}"
    assert "my-project" in f"{refused.value.message} {refused.value.fix}" or code == 401


@pytest.mark.parametrize("code", [429, 500, 503])
def test_what_passes_is_asked_again(
    fake: FakeArtifactRegistry, client: ArtifactRegistry, waits: list[float], code: int
) -> None:
    fake.add(TEAM.path)
    fake.refusals.append(Refusal("^GET", code, "X", "later", times=2))
    assert client.ensure(TEAM, create=False) == "found"
    assert len(fake.asked) == 3
    assert waits == [0.5, 1.0]


def test_a_server_that_does_not_exist(waits: list[float]) -> None:
    with artifact_registry() as fake:
        pass
    with asking(fake, waits) as client, pytest.raises(Unreachable) as unreachable:
        client.format_of(TEAM)
    assert unreachable.value.problem_id == "registry-unreachable"


@pytest.mark.parametrize(
    ("error", "id"),
    [
        (None, ""),
        ({"code": 6, "message": "it is there"}, ""),
        ({"code": 7, "message": "no"}, "registry-forbidden"),
        ({"code": 13, "message": "internal"}, "registry-unreachable"),
    ],
)
def test_a_creation_that_takes_its_time(
    fake: FakeArtifactRegistry, client: ArtifactRegistry, waits: list[float], error: dict[str, object] | None, id: str
) -> None:
    fake.operations = [{"done": False}, {"done": False}, {"done": True, **({"error": error} if error else {})}]
    if id:
        with pytest.raises(XsftError) as failed:
            client.ensure(TEAM, create=True)
        assert failed.value.problem_id == id
    else:
        assert client.ensure(TEAM, create=True) == "created"
    assert waits == [1.0, 1.0]


def test_a_creation_that_does_not_end_is_given_up(fake: FakeArtifactRegistry, client: ArtifactRegistry) -> None:
    fake.operations = [{"done": False}] * 100
    with pytest.raises(Unreachable, match="timed out after 45 s creating"):
        client.ensure(TEAM, create=True)


def test_an_answer_that_is_no_json_is_no_answer(fake: FakeArtifactRegistry, client: ArtifactRegistry) -> None:
    fake.refusals.append(Refusal("^GET", 200, "", "", page=b"<html>log in</html>"))
    with pytest.raises(Unreachable, match="proxy") as unreachable:
        client.format_of(TEAM)
    assert unreachable.value.problem_id == "registry-unreachable"


def test_a_missing_login_is_reported_before_any_request() -> None:
    with pytest.raises(Unreachable) as unreachable:
        module.connect_artifact_registry({"HOME": "/nowhere", "STORAGE_EMULATOR_HOST": "http://127.0.0.1:1"})
    assert (unreachable.value.problem_id, unreachable.value.exit_status) == ("registry-login-missing", 5)


@pytest.mark.engine
def test_what_was_pushed_is_what_is_listed(engine: Engine, registry: Registry, tmp_path: Path) -> None:
    docker, client = docker_client.connect_engine(engine.env), find_client(engine.env)
    for name in ("image", "other"):
        build(step(tmp_path / name, {"data": name}), engine=docker, client=client, names=(f"xsft-test/{name}:1",))
    repository, team = f"{registry.address}/xsft/team", Repository(project="my-project", location="us", name="xsft")
    pushed = pusher(docker).push("xsft-test/image:1", repository=f"{repository}/image", tag="code-1")
    pusher(docker).push("xsft-test/image:1", repository=f"{repository}/image", tag="code-2")
    pusher(docker).push("xsft-test/other:1", repository=f"{repository}/other", tag="code-1")
    with artifact_registry(registry.address) as serving, asking(serving, []) as asked:
        serving.add(team.path)
        serving.page = 1
        (listed,) = asked.images(team, name="team/image")
        assert (listed.digest, listed.tags, listed.size) == (pushed.digest, ("code-1", "code-2"), pushed.size)
        assert listed.uploaded_at == "2026-11-21T12:00:00Z"
        assert asked.images(team, name="team") == ()
        assert {image.name for image in asked.images(team)} == {"team/image", "team/other"}

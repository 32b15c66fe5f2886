"""Google's Artifact Registry client against a small server: repositories are found, created and listed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.artifactregistry_v1 import types

from tests.engine.daemon import Engine
from tests.engine.registryserver import Registry
from tests.engine.steps import step
from tests.fakes.artifact_registry import TYPES, FakeArtifactRegistry, Refusal, artifact_registry
from xsft.base.errors import EnvironmentMissing, Unreachable, UsageError, XsftError
from xsft.effects.images import docker_client
from xsft.effects.images.artifact_registry import (
    POLLING,
    ArtifactRegistry,
    artifact_registry_client,
    connect_artifact_registry,
)
from xsft.effects.images.docker_build import build, find_client
from xsft.effects.images.docker_push import pusher
from xsft.effects.images.registry_client import Registries
from xsft.image.artifact_names import Repository

TEAM = Repository(project="my-project", location="us", name="xsft")


@pytest.fixture
def fake() -> Iterator[FakeArtifactRegistry]:
    with artifact_registry() as serving:
        yield serving


@pytest.fixture
def client(fake: FakeArtifactRegistry) -> Iterator[ArtifactRegistry]:
    with asking(fake) as client:
        yield client


@pytest.fixture
def hasty(fake: FakeArtifactRegistry) -> Iterator[ArtifactRegistry]:
    """For what never succeeds."""
    with asking(fake, limit_s=0.1) as client:
        yield client


@contextmanager
def asking(fake: FakeArtifactRegistry, *, limit_s: float = 30.0) -> Iterator[ArtifactRegistry]:
    """Its pauses between queries are none, and between polls a hundredth of a user's."""
    with artifact_registry_client(AnonymousCredentials(), host=fake.host, scheme="http") as client:
        yield ArtifactRegistry(
            client=client,
            sleep=lambda _seconds: None,
            polling=POLLING.with_delay(0.01, 0.2).with_timeout(limit_s),
        )


def test_a_repository_that_exists_is_found_and_left_alone(fake: FakeArtifactRegistry, client: ArtifactRegistry) -> None:
    fake.add(TEAM.path)
    assert client.ensure(TEAM, create=True) == "found"
    assert [line.split()[0] for line in fake.asked] == ["GET"]


def test_a_missing_repository_is_created_only_with_create(fake: FakeArtifactRegistry, client: ArtifactRegistry) -> None:
    with pytest.raises(EnvironmentMissing) as missing:
        client.ensure(TEAM, create=False)
    assert missing.value.problem_id == "repository-missing"
    assert "--create" in missing.value.fix
    assert "gcloud artifacts repositories create xsft --repository-format=docker --location=us" in missing.value.fix
    told: list[str] = []
    assert client.ensure(TEAM, create=True, on_progress=told.append) == "created"
    assert client.ensure(TEAM, create=False) == "found"
    assert told == ["creating us-docker.pkg.dev/my-project/xsft"]
    made = fake.repositories[TEAM.path]
    assert (made["format"], made["description"]) == (
        types.Repository.Format.DOCKER,
        "Images of fine-tuning runs (xsft)",
    )


def test_ensure_accepts_a_repository_that_another_user_just_created(
    fake: FakeArtifactRegistry, client: ArtifactRegistry
) -> None:
    fake.add(TEAM.path)
    fake.refusals.append(Refusal("^GET", 404, "NOT_FOUND", "Requested entity was not found.", times=1))
    assert client.ensure(TEAM, create=True) == "created"
    assert [line.split()[0] for line in fake.asked] == ["GET", "POST", "GET"]


def test_a_conflict_without_a_repository_is_not_called_created(
    fake: FakeArtifactRegistry, client: ArtifactRegistry
) -> None:
    fake.refusals.append(Refusal("^POST", 409, "ABORTED", "try again"))
    with pytest.raises(Unreachable, match="HTTP 409 try again"):
        client.ensure(TEAM, create=True)


@pytest.mark.parametrize(("format", "match"), [("PYTHON", "PYTHON"), (8, "PYTHON"), (99, "99")])
def test_ensure_refuses_a_repository_of_another_format(
    fake: FakeArtifactRegistry, client: ArtifactRegistry, format: object, match: str
) -> None:
    """The API answers with numbers; a format that is newer than the client has no name."""
    fake.add(TEAM.path, format=format)
    with pytest.raises(UsageError, match=match) as refused:
        client.ensure(TEAM, create=True)
    assert refused.value.problem_id == "repository-not-docker"


DENIED = "Permission '{}' denied on resource '//artifactregistry.googleapis.com/x' (or it may not exist)."


def test_a_missing_repository_is_not_reported_as_a_missing_project(
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
        ("^GET", 403, DENIED.format("it"), "", "registry-forbidden", "roles/artifactregistry.reader"),
        ("^GET", 403, DENIED.format("it"), "", "registry-forbidden", "artifactregistry.repositories.get on"),
        ("^POST", 403, DENIED.format("it"), "", "registry-forbidden", "roles/artifactregistry.admin"),
        ("^POST", 403, DENIED.format("it"), "", "registry-forbidden",
         "artifactregistry.repositories.create on"),
        ("^GET", 403, "no", "SERVICE_DISABLED", "artifact-registry-disabled", "no (SERVICE_DISABLED)"),
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
def test_a_refusal_names_the_missing_role_or_setting(
    fake: FakeArtifactRegistry,
    hasty: ArtifactRegistry,
    on: str,
    code: int,
    message: str,
    reason: str,
    id: str,
    names: str,
) -> None:
    fake.refusals.append(Refusal(on, code, "X", message, reason))
    with pytest.raises(XsftError) as refused:
        hasty.ensure(TEAM, create=True)
    assert refused.value.problem_id == id
    assert names in f"{refused.value.message} {refused.value.fix}"
    assert "None" not in refused.value.message
    assert "my-project" in f"{refused.value.message} {refused.value.fix}" or code == 401


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_transient_errors_are_retried(fake: FakeArtifactRegistry, client: ArtifactRegistry, code: int) -> None:
    fake.operations = [{"done": False}, {"done": True}]
    fake.refusals[:] = [
        Refusal(on, code, "X", "later", times=2) for on in ("repositories/xsft$", "^POST", "operations")
    ]
    assert client.ensure(TEAM, create=True) == "created"
    assert len(fake.asked) == 9
    fake.refusals.append(Refusal("dockerImages$", code, "X", "later", times=2))
    assert client.images(TEAM) == ()


@pytest.mark.parametrize(("asked", "slept"), [("7", [7.0, 1.0]), ("3600", [])])
def test_retry_after_is_obeyed_within_the_budget(
    fake: FakeArtifactRegistry, client: ArtifactRegistry, asked: str, slept: list[float]
) -> None:
    pauses: list[float] = []

    def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        fake.retry_after = ""

    fake.retry_after = asked
    fake.refusals.append(Refusal("^GET", 429, "X", "later", times=2))
    if slept:
        assert replace(client, sleep=sleep).format_of(TEAM) is None
    else:
        with pytest.raises(Unreachable) as refused:
            replace(client, sleep=sleep).format_of(TEAM)
        assert refused.value.problem_id == "registry-rate-limited"
    assert pauses == slept


def test_images_names_the_missing_permission_when_listing_is_forbidden(
    fake: FakeArtifactRegistry, client: ArtifactRegistry
) -> None:
    fake.refusals.append(Refusal("dockerImages$", 403, "PERMISSION_DENIED", "no"))
    with pytest.raises(Unreachable, match=r"artifactregistry\.dockerimages\.list"):
        client.images(TEAM)


def test_a_refused_connection_is_registry_unreachable() -> None:
    with artifact_registry() as fake:
        pass
    with asking(fake, limit_s=0.1) as client, pytest.raises(Unreachable) as unreachable:
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
def test_a_slow_creation_is_polled_until_done_or_failed(
    fake: FakeArtifactRegistry, client: ArtifactRegistry, error: dict[str, object] | None, id: str
) -> None:
    fake.operations = [{"done": False}, {"done": False}, {"done": True, **({"error": error} if error else {})}]
    if id:
        with pytest.raises(XsftError) as failed:
            client.ensure(TEAM, create=True)
        assert failed.value.problem_id == id
    else:
        assert client.ensure(TEAM, create=True) == "created"
    assert [line.split()[0] for line in fake.asked[:4]] == ["GET", "POST", "GET", "GET"]


def test_a_creation_that_does_not_end_times_out(fake: FakeArtifactRegistry, hasty: ArtifactRegistry) -> None:
    fake.operations = [{"done": False}] * 100
    with pytest.raises(Unreachable, match=r"timed out after 0\.1 s creating"):
        hasty.ensure(TEAM, create=True)


def test_every_query_has_a_time_limit(
    fake: FakeArtifactRegistry, client: ArtifactRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.operations = [{"done": False}, {"done": True}]
    limits: list[float] = []
    request = client.client.transport._session.request
    monkeypatch.setattr(
        client.client.transport._session, "request", lambda *a, **k: limits.append(k["timeout"]) or request(*a, **k)
    )
    assert client.ensure(TEAM, create=True) == "created"
    assert client.images(TEAM) == ()
    assert [round(limit) for limit in limits] == [10] * 4


def test_a_creation_succeeds_when_its_response_has_unknown_fields(
    fake: FakeArtifactRegistry, client: ArtifactRegistry
) -> None:
    newer = {"done": True, "response": {"@type": f"{TYPES}.Repository", "unheardOf": 1}}
    fake.operations = [{"done": False}, newer]
    assert client.ensure(TEAM, create=True) == "created"


PAGES = (b"<html>log in</html>", b"[]", b"{}", b"1", b'"a"', b"{", b"\xff", b"[" * 100_000, b"", b'{"error": "no"}')


@pytest.mark.parametrize("page", PAGES)
def test_a_proxy_page_with_status_200_is_registry_unreachable(
    fake: FakeArtifactRegistry, client: ArtifactRegistry, page: bytes
) -> None:
    fake.refusals.append(Refusal("^GET", 200, "", "", page=page))
    with pytest.raises(Unreachable, match="proxy") as unreachable:
        client.format_of(TEAM)
    assert unreachable.value.problem_id == "registry-unreachable"


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("code", [302, 502])
def test_a_proxy_error_page_is_registry_unreachable_and_not_quoted(
    fake: FakeArtifactRegistry, hasty: ArtifactRegistry, code: int, page: bytes
) -> None:
    fake.refusals.append(Refusal("^GET", code, "", "", page=page))
    with pytest.raises(Unreachable) as unreachable:
        hasty.format_of(TEAM)
    assert unreachable.value.problem_id == "registry-unreachable"
    assert "<" not in unreachable.value.message


def test_a_missing_login_is_reported_before_any_request() -> None:
    with pytest.raises(Unreachable) as unreachable:
        connect_artifact_registry({"HOME": "/nowhere", "STORAGE_EMULATOR_HOST": "http://127.0.0.1:1"})
    assert (unreachable.value.problem_id, unreachable.value.exit_status) == ("registry-login-missing", 5)
    assert "no Google login found" in unreachable.value.message


def test_connect_uses_the_google_login_and_reports_a_broken_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    env = {"GOOGLE_APPLICATION_CREDENTIALS": str(key)}
    with pytest.raises(Unreachable, match=r"key\.json") as broken:
        connect_artifact_registry(env)
    assert broken.value.problem_id == "registry-login-missing"
    key.write_text(
        json.dumps({"type": "authorized_user", "client_id": "a", "client_secret": "b", "refresh_token": "c"})
    )
    with connect_artifact_registry(env).client as client:
        assert client.transport._host == "https://artifactregistry.googleapis.com"
    monkeypatch.setenv("GOOGLE_API_USE_MTLS_ENDPOINT", "sometimes")
    with pytest.raises(Unreachable, match="GOOGLE_API_USE_MTLS_ENDPOINT"):
        connect_artifact_registry(env)


def test_images_are_listed_newest_first_from_every_page(fake: FakeArtifactRegistry, client: ArtifactRegistry) -> None:
    fake.add(TEAM.path)
    fake.page = 2
    fake._stored = lambda _: iter(
        {
            "uri": f"{TEAM.docker}/{name}@sha256:{day}",
            "tags": ["y", "x"],
            "imageSizeBytes": "5",
            "uploadTime": f"2026-11-2{day}T12:00:00.{day}Z",
        }
        for day, name in enumerate("aba", 1)
    )
    newest, oldest = client.images(TEAM, name="a")
    assert (newest.name, newest.digest, newest.tags, newest.size) == ("a", "sha256:3", ("x", "y"), 5)
    assert (newest.uploaded_at, oldest.uploaded_at) == ("2026-11-23T12:00:00Z", "2026-11-21T12:00:00Z")
    assert [image.digest for image in client.images(TEAM)] == ["sha256:3", "sha256:2", "sha256:1"]
    fake._stored = lambda _: iter([{"uri": f"{TEAM.docker}/a@sha256:1"}])
    (bare,) = client.images(TEAM)
    assert (bare.tags, bare.size, bare.uploaded_at) == ((), 0, "")


@pytest.mark.engine
def test_images_lists_every_pushed_image(engine: Engine, registry: Registry, tmp_path: Path) -> None:
    docker, client = docker_client.connect_engine(engine.env), find_client(engine.env)
    for name in ("image", "other"):
        build(step(tmp_path / name, {"data": name}), engine=docker, client=client, names=(f"xsft-test/{name}:1",))
    repository, team = f"{registry.address}/xsft/team", Repository(project="my-project", location="us", name="xsft")
    pushed = pusher(docker).push("xsft-test/image:1", repository=f"{repository}/image", tag="code-1")
    pusher(docker).push("xsft-test/image:1", repository=f"{repository}/image", tag="code-2")
    pusher(docker).push("xsft-test/other:1", repository=f"{repository}/other", tag="code-1")
    with artifact_registry(registry.address) as serving, asking(serving) as asked:
        serving.add(team.path)
        serving.page = 1
        (listed,) = asked.images(team, name="team/image")
        manifest = Registries(env=engine.env).manifest(f"{repository}/image@{pushed}")
        assert manifest is not None
        assert (listed.digest, listed.tags, listed.size) == (pushed, ("code-1", "code-2"), manifest.size)
        assert listed.uploaded_at == "2026-11-21T12:00:00Z"
        assert asked.images(team, name="team") == ()
        assert {image.name for image in asked.images(team)} == {"team/image", "team/other"}

"""What engines, builds and registries say, explained with an id, an exit status and a command that helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.image.docker_words import SAID
from tests.replacing import replace
from xsft.base.errors import XsftError
from xsft.image.build import Build, _build_failure
from xsft.image.failures import NO_CLIENT, FailedRequest, explain_failure

PUSH = FailedRequest(what="push h/r:t", host="us-docker.pkg.dev", repository="us-docker.pkg.dev/p/r", pushes=True)
BUILD = Build(what="the deps image", name="x:1", files=())


@pytest.mark.parametrize(("said", "id", "status", "mends"), SAID)
def test_a_message_is_explained_with_id_status_and_fix(said: str, id: str, status: int, mends: str) -> None:
    error = explain_failure(said, PUSH)
    assert (error.problem_id, error.exit_status) == (id, status)
    assert mends in error.fix


def test_a_failing_registry_is_told_with_its_status() -> None:
    said = "received unexpected HTTP status: 500 Internal Server Error"
    assert explain_failure(said, PUSH).message.startswith("us-docker.pkg.dev answers HTTP 500: could not push h/r:t")


@pytest.mark.parametrize(
    ("said", "changes", "id", "words"),
    [
        ("unauthorized", {"anonymous": True}, "registry-login-missing", "gcloud auth configure-docker"),
        ("unauthorized", {"anonymous": True, "host": "h.dev"}, "registry-login-missing", "docker login h.dev"),
        ("denied: no", {"anonymous": True, "pushes": False}, "registry-login-missing", "Log in"),
        ("denied: no", {"pushes": False}, "registry-forbidden", "artifactregistry.reader"),
        ("denied: no", {"host": "h.dev"}, "registry-forbidden", "permission to push"),
        ("HTTP 405", {"host": "h.dev"}, "registry-forbidden", "permission to push"),
        ("name unknown", {"host": "h.dev"}, "repository-missing", "in that registry"),
        ("manifest unknown", {"pushes": False}, "image-absent", "push the image first"),
        ("HTTP 403 Permission 'artifactregistry.repositories.create' denied", {}, "registry-forbidden",
         "artifactregistry.admin"),
        ("HTTP 403 API has not been used in project p SERVICE_DISABLED", {}, "artifact-registry-disabled", "enable"),
        ("HTTP 403 resource project CONSUMER_INVALID", {}, "project-missing", "projects list"),
        ("HTTP 400 invalid location", {}, "artifact-repository", "locations list"),
    ],
)  # fmt: skip
def test_the_fix_is_for_the_registry_the_login_and_the_request(
    said: str, changes: dict[str, Any], id: str, words: str
) -> None:
    error = explain_failure(said, replace(PUSH, **changes))
    assert (error.problem_id, words in error.fix) == (id, True), error.fix


@pytest.mark.parametrize(
    ("said", "client", "id", "mends"),
    [
        ("('Connection aborted.', PermissionError(13, 'Permission denied'))", "docker", "docker-permission",
         "sudo usermod -aG docker $USER"),
        ("('Connection aborted.', FileNotFoundError(2, 'No such file or directory'))", "docker", "docker-not-running",
         "sudo systemctl start docker"),
        ("('Connection aborted.', FileNotFoundError(2, 'No such file or directory'))", None, "docker-missing",
         "https://docs.docker.com/engine/install"),
        ("('Connection aborted.', ConnectionRefusedError(111, 'Connection refused'))", None, "docker-not-running",
         "sudo systemctl start docker"),
        ("TLS is hard", "docker", "docker-not-running", "docker version"),
    ],
)  # fmt: skip
def test_missing_engine_is_explained(said: str, client: str | None, id: str, mends: str) -> None:
    request = FailedRequest(what="use Docker", stage="connect", host="unix:///var/run/docker.sock")
    error = explain_failure(said if client else f"{said}; {NO_CLIENT}", request)
    assert (error.problem_id, error.exit_status) == (id, 3)
    assert mends in error.fix


@pytest.mark.parametrize(
    ("output", "id", "status"),
    [
        ("#5 0.2 /bin/sh: 1: python3: not found", "base-without-python", 2),
        ("#5 0.2 /usr/bin/python3: No module named pip", "base-without-python", 2),
        ("#5 0.2 ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "build-hash-mismatch", 3),
        ("#5 9.1 ERROR: No matching distribution found for jax==99", "build-package-missing", 3),
        ("#5 9.1 OSError: [Errno 28] No space left on device", "disk-full", 3),
        ("#5 9.1 Temporary failure in name resolution", "build-no-network", 3),
        ("#5 9.1 [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get", "build-certificate", 3),
        ("#5 0.1 exec /bin/sh: exec format error", "build-platform", 3),
        ("#5 9.1 Killed", "build-out-of-memory", 3),
        ("#5 9.1 something else", "build-failed", 3),
    ],
)  # fmt: skip
def test_failed_build_step_is_explained(output: str, id: str, status: int) -> None:
    error = failed_with(output)
    assert (error.problem_id, error.exit_status) == (id, status)
    assert error.message.startswith("Could not build the deps image: ")
    if id != "build-failed":
        assert output in error.message, "the line that shows the cause"


_, *PRINTED = (Path(__file__).parent / "build_words.txt").read_text(encoding="utf-8").split("=== ")


@pytest.mark.parametrize("printed", PRINTED, ids=[printed.splitlines()[0] for printed in PRINTED])
def test_missing_package_is_explained(printed: str) -> None:
    head, _, said = printed.partition("\n")
    assert failed_with("\n".join(f"#5 9.1 {line}" for line in said.splitlines())).problem_id == head.split()[0]


def failed_with(message: str) -> XsftError:
    """Return the error of the step that prints this, as BuildKit reports it."""
    end = "#5 ERROR: executor failed running [/bin/sh]: exit code: 1"
    return _build_failure(f"#5 [2/2] RUN install.py\n{message}\n{end}", BUILD)


@pytest.mark.parametrize(
    ("base", "host"), [("docker.io/library/python:3.12", "docker.io"), ("localhost:5000/x:1", "localhost:5000")]
)
def test_refused_login_for_a_base_image_names_the_registry(base: str, host: str) -> None:
    output = f"#3 [internal] load metadata for {base}\n#3 ERROR: unexpected status: 401 Unauthorized"
    error = _build_failure(output, BUILD)
    assert (error.problem_id, error.fix) == ("registry-login-refused", f"Log in again: docker login {host}.")


def test_unreachable_registry_of_the_base_image_is_reported() -> None:
    said = 'failed to do request: Head "https://nowhere.invalid/v2/x": dial tcp: lookup nowhere.invalid: no such host'
    error = _build_failure(f"#3 [internal] load metadata for nowhere.invalid/x:1\n#3 ERROR: {said}", BUILD)
    assert (error.problem_id, error.exit_status) == ("registry-unreachable", 5)
    assert "pull the base image nowhere.invalid/x:1" in error.message


def test_tokens_in_messages_are_redacted() -> None:
    token = "hf_" + "a1B2" * 9
    assert token not in explain_failure(f"denied: {token}", PUSH).message

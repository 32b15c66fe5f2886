"""Messages of engines and registries, explained with an id, an exit status and a command that helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.image.docker_words import SAID
from xsft.base.errors import XsftError
from xsft.image.build_errors import build_failed
from xsft.image.docker_errors import DockerRequest, explain_docker_error, is_passing, no_engine
from xsft.image.model import BuildStep
from xsft.image.progress import BuildOutput

PUSH = DockerRequest(
    what="push h/r:t", host="us-docker.pkg.dev", repository="us-docker.pkg.dev/p/r", google=True, pushes=True
)
STEP = BuildStep(name="deps", tag="deps-1", dockerfile="Dockerfile", files=())


@pytest.mark.parametrize(("said", "id", "status", "mends", "passes"), SAID)
def test_docker_error_is_explained_with_id_status_and_fix(
    said: str, id: str, status: int, mends: str, passes: bool
) -> None:
    error = explain_docker_error(said, PUSH)
    assert (error.problem_id, error.exit_status) == (id, status)
    assert mends in error.fix
    assert is_passing(said) is passes


@pytest.mark.parametrize(
    "said",
    [
        "error parsing HTTP 403 response body: unexpected EOF: denied",
        "unauthorized: authentication required (use of closed network connection)",
        "dial tcp: lookup nowhere.invalid: no such host: connection refused",
        "repository name not known to registry: connection reset by peer",
    ],
)
def test_refusal_that_mentions_a_connection_is_not_retried(said: str) -> None:
    assert not is_passing(said)


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
    error = no_engine(said, host="unix:///var/run/docker.sock", client=client)
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
    reading = BuildOutput()
    for line in ("#5 [2/2] RUN pip install", output, "#5 ERROR: executor failed running [/bin/sh]: exit code: 1"):
        list(reading.events(line))
    error = build_failed(reading, STEP)
    assert (error.problem_id, error.exit_status) == (id, status)
    assert "RUN pip install" in error.message
    assert output in error.message


_, *PRINTED = (Path(__file__).parent / "build_words.txt").read_text(encoding="utf-8").split("=== ")


@pytest.mark.parametrize("printed", PRINTED, ids=[printed.splitlines()[0] for printed in PRINTED])
def test_missing_package_is_explained(printed: str) -> None:
    head, _, said = printed.partition("\n")
    assert failed_with(said).problem_id == head.split()[0]


def failed_with(said: str) -> XsftError:
    """Return the error of the step that prints this, as BuildKit reports it."""
    reading = BuildOutput()
    output = (f"#5 9.1 {line}" for line in said.splitlines())
    for line in ("#5 [2/2] RUN install.py", *output, "#5 ERROR: executor failed running [/bin/sh]: exit code: 1"):
        list(reading.events(line))
    return build_failed(reading, STEP)


@pytest.mark.parametrize(
    ("base", "host"), [("docker.io/library/python:3.12", "docker.io"), ("localhost:5000/x:1", "localhost:5000")]
)
def test_refused_login_for_a_base_image_names_the_registry(base: str, host: str) -> None:
    reading = BuildOutput()
    for line in (f"#3 [internal] load metadata for {base}", "#3 ERROR: unexpected status: 401 Unauthorized"):
        list(reading.events(line))
    error = build_failed(reading, STEP)
    assert (error.problem_id, error.fix) == ("registry-login-refused", f"Log in again: docker login {host}.")


def test_unreachable_registry_of_the_base_image_is_reported() -> None:
    reading = BuildOutput()
    said = 'failed to do request: Head "https://nowhere.invalid/v2/x": dial tcp: lookup nowhere.invalid: no such host'
    for line in ("#3 [internal] load metadata for nowhere.invalid/x:1", f"#3 ERROR: {said}"):
        list(reading.events(line))
    error = build_failed(reading, STEP)
    assert (error.problem_id, error.exit_status) == ("registry-unreachable", 5)
    assert "pull the base image nowhere.invalid/x:1" in error.message


def test_tokens_in_docker_errors_are_redacted() -> None:
    token = "hf_" + "a1B2" * 9
    assert token not in explain_docker_error(f"denied: {token}", PUSH).message

"""The meaning of each error of Google's storage library."""

from __future__ import annotations

import pytest
import requests
from google.api_core import exceptions as google
from google.auth.exceptions import RefreshError
from requests.exceptions import ConnectionError as NoConnection

from xsft.base.errors import EnvironmentMissing, Unreachable
from xsft.machine.gcs import client
from xsft.machine.paths import LOGIN
from xsft.machine.storage import ask_storage

PATH = "gs://b/a/c"


def ask(*errors: Exception, pauses: tuple[float, ...] = (0.5, 1.0)) -> tuple[object, list[float]]:
    """Return the answer after these errors, and the pauses before further tries."""
    errors_left, slept = list(errors), list[float]()

    def question() -> str:
        if errors_left:
            raise errors_left.pop(0)
        return "answer"

    return ask_storage(PATH, question, permissions="some.right", pauses=pauses, sleep=slept.append), slept


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (google.NotFound("no"), None),
        (google.PreconditionFailed("it exists"), False),
        (google.RequestRangeNotSatisfiable("empty"), b""),
    ],
)
def test_not_found_and_failed_preconditions_are_answers(error: Exception, meaning: object) -> None:
    assert ask(error) == (meaning, [])


@pytest.mark.parametrize("error", [google.TooManyRequests("busy"), google.ServiceUnavailable("busy"), OSError("cut")])
def test_a_busy_bucket_or_broken_connection_is_retried(error: Exception) -> None:
    assert ask(error, error) == ("answer", [0.5, 1.0])
    with pytest.raises(Unreachable):
        ask(error, pauses=())


LATER = "Try again; status.cloud.google.com says whether Cloud Storage is up."
ASK_FOR = "Ask for some.right on the bucket, or log in with an account that has them."
NAMED = "Change what it names; a requester-pays bucket cannot be used."
NOT_ACCEPTED = "the login was not accepted"


@pytest.mark.parametrize(
    ("error", "message", "fix"),
    [
        (google.Forbidden("no"), "permission denied (HTTP 403)", ASK_FOR),
        (google.Unauthorized("no"), "permission denied (HTTP 401)", ASK_FOR),
        (google.BadRequest("requester pays"), "Cloud Storage refused the request: 400 requester pays", NAMED),
        (google.InternalServerError("no"), "Cloud Storage answered HTTP 500", LATER),
        (RefreshError("expired\nand more"), f"{NOT_ACCEPTED} (expired)", LOGIN),
        (RefreshError(), f"{NOT_ACCEPTED} (RefreshError)", LOGIN),
        (RefreshError("x" * 300), f"{NOT_ACCEPTED} ({'x' * 200})", LOGIN),
        (NoConnection("x"), "no connection (ConnectionError)", "Check the network."),
    ],
)
def test_other_errors_are_unreachable_with_a_fix(error: Exception, message: str, fix: str) -> None:
    with pytest.raises(Unreachable) as caught:
        ask(error, pauses=())
    assert (caught.value.message, caught.value.fix) == (f"{PATH}: {message}", fix)


def test_a_bucket_with_an_unusable_kms_key_names_the_command() -> None:
    with pytest.raises(EnvironmentMissing) as caught:
        ask(google.Forbidden("Permission denied on Cloud KMS key."))
    assert caught.value.problem_id == "bucket-key"
    assert caught.value.message.startswith(f"{PATH}: Cloud Storage may not use the bucket's default encryption key")
    assert "--authorize-cmek=$(gcloud storage buckets describe gs://b --format" in caught.value.fix


def busy(retry_after: str) -> google.TooManyRequests:
    answer = requests.Response()
    answer.headers["Retry-After"] = retry_after
    return google.TooManyRequests("busy", response=answer)


@pytest.mark.parametrize(("header", "pause"), [("0", 0.5), ("3", 3.0), ("15", 15.0)])
def test_no_try_is_made_before_the_end_of_retry_after(header: str, pause: float) -> None:
    assert ask(busy(header)) == ("answer", [pause])


def test_a_retry_after_of_more_than_15_seconds_ends_the_tries() -> None:
    slept: list[float] = []

    def question() -> str:
        raise busy("16")

    with pytest.raises(Unreachable, match="HTTP 429"):
        ask_storage(PATH, question, permissions="some.right", pauses=(0.5, 1.0), sleep=slept.append)
    assert slept == []


@pytest.mark.parametrize(("env", "project"), [({}, "xsft"), ({"GOOGLE_CLOUD_PROJECT": "mine"}, "mine")])
def test_the_client_of_an_emulator_has_a_project_and_no_login(env: dict[str, str], project: str) -> None:
    storage_client = client(env, emulated=True)
    assert (storage_client.project, type(storage_client._credentials).__name__) == (project, "AnonymousCredentials")
    assert "google_session" in type(storage_client._http).__qualname__, "which takes no login from ~/.netrc"

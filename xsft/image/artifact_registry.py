"""Creates a repository in Artifact Registry, if the user asks for it. All else is done through the registry's own API,
which needs no other login.

source: artifactregistry.googleapis.com v1 REST reference, projects.locations.repositories.create, operations.get.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec.json import Decoder
from requests import RequestException

from xsft.base.errors import UsageError
from xsft.image.failures import FailedRequest, explain_failure
from xsft.image.login import Login, login_for
from xsft.image.reference import repository_of
from xsft.machine.clock import pause
from xsft.machine.http_session import Session

API = "https://artifactregistry.googleapis.com/v1"
TIMEOUT_S = 10.0
POLLS_S = (1.0, 2.0, 4.0, 8.0, 15.0, 15.0)
"""Seconds before each question whether the repository is ready."""
DOCUMENT = Decoder(dict[str, Any])
DESCRIPTION = "Images of fine-tuning runs (xsft)"


def create_repository(
    registry: str,
    *,
    env: Mapping[str, str],
    say: Callable[[str], None],
    api: str = API,
    find_login: Callable[..., Login | None] = login_for,
    sleep: Callable[[float], None] = pause,
) -> None:
    """Create the repository of an Artifact Registry name. If another user created it at the same moment, that counts as
    success. Raises UsageError for any other registry, and what Google answers, explained.
    """
    repository = repository_of(registry)
    if repository is None:
        raise UsageError(
            f"{registry} is not in Artifact Registry: xsft cannot create its repository.",
            fix="Create it in that registry, and push without --create.",
            id="artifact-repository",
        )
    host = repository.docker.partition("/")[0]
    login = find_login(host, env=env)
    request = FailedRequest(
        what=f"create {repository.docker}",
        host=host,
        repository=repository.docker,
        pushes=True,
        anonymous=login is None,
    )

    ask = partial(_ask_google, api, login=login, request=request)
    say(f"creating {repository.docker}")
    operation = ask(
        "POST",
        f"{repository.parent}/repositories?repositoryId={repository.name}",
        json={"format": "DOCKER", "description": DESCRIPTION},
    )
    for pause_s in POLLS_S:
        if operation.get("done"):
            break
        sleep(pause_s)
        operation = ask("GET", str(operation.get("name")))
    if problem := operation.get("error"):
        raise explain_failure(str(problem.get("message")), request)
    if not operation.get("done"):
        raise explain_failure(f"timed out after {sum(POLLS_S):g} s creating the repository", request)


def _ask_google(
    api: str, method: str, path: str, *, login: Login | None, request: FailedRequest, **options: Any
) -> dict[str, Any]:
    """Ask with an access token, which `gcloud auth configure-docker` gives, too."""
    headers = {"Authorization": f"Bearer {login.secret}"} if login else {}
    try:
        with Session() as session:
            answer = session.request(method, f"{api}/{path}", headers=headers, timeout=TIMEOUT_S, **options)
        document: dict[str, Any] = DOCUMENT.decode(answer.content)
    except (RequestException, ValueError) as failed:
        raise explain_failure(f"connection broken: {failed}", request) from None
    if answer.status_code == 409:  # another user was faster
        return {"done": True}
    if answer.status_code >= 300:
        raise explain_failure(f"HTTP {answer.status_code} {_google_message(document)}", request)
    return document


def _google_message(document: Mapping[str, Any]) -> str:
    """Return Google's message and its reasons, e.g. SERVICE_DISABLED."""
    problem = document.get("error")
    if not isinstance(problem, dict):
        return ""
    details = problem.get("details") or ()
    reasons = [str(detail.get("reason")) for detail in details if isinstance(detail, dict) and detail.get("reason")]
    return " ".join((str(problem.get("message", "")), *reasons))

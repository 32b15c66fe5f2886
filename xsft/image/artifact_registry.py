"""Creates a repository in Artifact Registry, if the user asks for it. All else is done through the registry's own API,
which needs no other login.

source: artifactregistry.googleapis.com v1 REST reference, projects.locations.repositories.create, operations.get.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from requests import RequestException

from xsft.base.errors import UsageError, XsftError
from xsft.image.artifact_names import Repository, repository_of
from xsft.image.failures import FailedRequest, explain_failure
from xsft.image.login import Login, login_for
from xsft.machine.clock import pause
from xsft.machine.http_session import Session

API = "https://artifactregistry.googleapis.com/v1"
TIMEOUT_S = 10.0
POLLS_S = (1.0, 2.0, 4.0, 8.0, 15.0, 15.0)
"""Seconds before each question whether the repository is ready."""
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
    say(f"creating {repository.docker}")
    login = find_login(repository.docker.partition("/")[0], env=env)
    client = _Client(repository, api=api, login=login)
    operation = client.ask(
        "POST",
        f"{repository.parent}/repositories?repositoryId={repository.name}",
        json={"format": "DOCKER", "description": DESCRIPTION},
    )
    for pause_s in POLLS_S:
        if operation.get("done"):
            break
        sleep(pause_s)
        operation = client.ask("GET", str(operation.get("name")))
    if problem := operation.get("error"):
        raise client.explain(str(problem.get("message")))
    if not operation.get("done"):
        raise client.explain(f"timed out after {sum(POLLS_S):g} s creating the repository")


class _Client:
    """Asks Artifact Registry's API with an access token, which `gcloud auth configure-docker` gives, too."""

    def __init__(self, repository: Repository, *, api: str, login: Login | None) -> None:
        self._repository, self._api, self._login = repository, api, login

    def ask(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._login.secret}"} if self._login else {}
        url = f"{self._api}/{path}"
        try:
            with Session() as session:
                answer = session.request(method, url, headers=headers, timeout=TIMEOUT_S, **options)
            document = answer.json()
        except (RequestException, ValueError) as failed:
            raise self.explain(f"connection broken: {failed}") from None
        if not isinstance(document, dict):
            raise self.explain("connection broken: the answer is not Artifact Registry's JSON")
        if answer.status_code == 409:  # another user was faster
            return {"done": True}
        if answer.status_code >= 300:
            raise self.explain(f"HTTP {answer.status_code} {_google_message(document)}")
        return document

    def explain(self, text: str) -> XsftError:
        repository = self._repository.docker
        request = FailedRequest(
            what=f"create {repository}",
            host=repository.partition("/")[0],
            repository=repository,
            google=True,
            pushes=True,
            anonymous=self._login is None,
        )
        return explain_failure(text, request)


def _google_message(document: Mapping[str, Any]) -> str:
    """Return Google's message and its reasons, e.g. SERVICE_DISABLED."""
    problem = document.get("error")
    if not isinstance(problem, dict):
        return ""
    details = problem.get("details") or ()
    reasons = [str(detail.get("reason")) for detail in details if isinstance(detail, dict) and detail.get("reason")]
    return " ".join((str(problem.get("message", "")), *reasons))

"""What Artifact Registry's refusals mean, and the role or command that is missing. Pure.

source: Artifact Registry documentation, "Access control with IAM"; google.rpc.ErrorInfo reasons of Service Usage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from xsft.errors import EnvironmentMissing, Unreachable, UsageError, XsftError
from xsft.image.artifact_names import Repository
from xsft.image.docker_errors import LOG_IN_GOOGLE, words

ROLES = (
    ("repositories.create", "roles/artifactregistry.admin"),
    ("uploadArtifacts", "roles/artifactregistry.writer"),
    ("", "roles/artifactregistry.reader"),
)
"""The first whose text is in the permission; the narrowest role that has it."""


class ArtifactRequest(Struct, frozen=True, kw_only=True):
    """What was asked, for messages."""

    permission: str
    """Without which it is refused: `artifactregistry.repositories.get`."""
    repository: Repository

    @property
    def role(self) -> str:
        return next(role for part, role in ROLES if part in self.permission)


def explain(code: int | None, said: str, asked: ArtifactRequest) -> XsftError:
    """The error for an HTTP status and Google's own words."""
    if re.search(r"has not been used in project|it is disabled|SERVICE_DISABLED", said):
        return _disabled(said, asked)
    if code == 401:
        return no_login(said)
    known: Mapping[int, Callable[[str, ArtifactRequest], XsftError]] = {
        400: _invalid,
        403: _forbidden,
        404: _missing,
        429: _limited,
    }
    make = known.get(code or 0)
    return make(said, asked) if make else timed_out(f"HTTP {code} {said}" if code else said, asked)


def no_login(said: str) -> Unreachable:
    return Unreachable(
        f"Artifact Registry needs a login: {words(said)}.", fix=LOG_IN_GOOGLE, id="registry-login-missing"
    )


def timed_out(said: str, asked: ArtifactRequest) -> Unreachable:
    return Unreachable(
        f"Artifact Registry did not tell about {asked.repository.docker}: {words(said)}",
        fix="Check the network, and try again; status.cloud.google.com says whether Artifact Registry is up.",
        id="registry-unreachable",
    )


def not_docker(name: str, format: str) -> UsageError:
    return UsageError(
        f"{name} holds packages of the format {format}, not images.",
        fix="Name another repository; `xsft image push --create` makes one for images.",
        id="repository-not-docker",
    )


def about_project(said: str) -> bool:
    """Whether it is the project that is not found; `projects/p/locations/…` is how a repository is named."""
    return re.search(r"(?<![\w/-])project(?![\w/-])", said, re.IGNORECASE) is not None


def _missing(said: str, asked: ArtifactRequest) -> EnvironmentMissing:
    repository = asked.repository
    create = (
        f"gcloud artifacts repositories create {repository.name} --repository-format=docker "
        f"--location={repository.location} --project={repository.project}"
    )
    if about_project(said):
        return EnvironmentMissing(
            f"There is no project {repository.project}, or you may not see it: {words(said)}",
            fix="Correct the project in the registry's name; `gcloud projects list` names yours.",
            id="project-missing",
        )
    return EnvironmentMissing(
        f"There is no repository {repository.docker}.",
        fix=f"Create it: xsft image push --create, or {create}.",
        id="repository-missing",
    )


def _forbidden(said: str, asked: ArtifactRequest) -> XsftError:
    """Google says the same for what is not there and for what may not be seen."""
    repository = asked.repository
    if re.search(r"CONSUMER_INVALID|resource project", said):
        return _missing(f"project: {said}", asked)
    if re.search(r"'(?:projects/[^/']+/)?locations/[^/']+' .*may not exist", said):
        return _invalid(said, asked)
    return Unreachable(
        f"You may not {asked.permission} on {repository.docker} (or it is not there): {words(said)}",
        fix=f"Ask for {asked.role} on the project {repository.project}, or on the repository; "
        "pushing needs roles/artifactregistry.writer.",
        id="registry-forbidden",
    )


def _invalid(said: str, asked: ArtifactRequest) -> UsageError:
    repository = asked.repository
    return UsageError(
        f"Artifact Registry does not take {repository.docker}: {words(said)}",
        fix=f"Check the location {repository.location!r} (gcloud artifacts locations list), the project "
        f"{repository.project!r} and the repository {repository.name!r} in the name.",
        id="artifact-repository",
    )


def _disabled(said: str, asked: ArtifactRequest) -> EnvironmentMissing:
    project = asked.repository.project
    return EnvironmentMissing(
        f"Artifact Registry is not enabled in the project {project}: {words(said)}",
        fix=f"Enable it: gcloud services enable artifactregistry.googleapis.com --project={project}.",
        id="artifact-registry-disabled",
    )


def _limited(said: str, asked: ArtifactRequest) -> Unreachable:
    return Unreachable(
        f"Artifact Registry takes no more requests about {asked.repository.docker} for now: {words(said)}",
        fix="Try again in some minutes.",
        id="registry-rate-limited",
    )

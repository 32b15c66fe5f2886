"""Map Artifact Registry's error responses to xsft errors that name the missing role or command. Pure.

source: Artifact Registry documentation, "Access control with IAM"; google.rpc.ErrorInfo reasons of Service Usage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from xsft.base.errors import EnvironmentMissing, RepositoryMissing, Unreachable, UsageError, XsftError
from xsft.image.artifact_names import Repository
from xsft.image.docker_errors import LOG_IN_GOOGLE, shorten_message

ROLES = (
    ("repositories.create", "roles/artifactregistry.admin"),
    ("uploadArtifacts", "roles/artifactregistry.writer"),
    ("", "roles/artifactregistry.reader"),
)
"""Pairs of (part of a permission, narrowest role that has it); the first match counts."""


class ArtifactRequest(Struct, frozen=True, kw_only=True):
    """The request that Artifact Registry refused, for messages."""

    permission: str
    """The permission that the request needs: `artifactregistry.repositories.get`."""
    repository: Repository

    @property
    def role(self) -> str:
        return next(role for part, role in ROLES if part in self.permission)


def explain_artifact_error(code: int | None, message: str, request: ArtifactRequest) -> XsftError:
    """Return the error for an HTTP status and Google's message."""
    if re.search(r"has not been used in project|it is disabled|SERVICE_DISABLED", message):
        return _api_disabled_error(message, request)
    if code == 401:
        return no_login(message)
    known: Mapping[int, Callable[[str, ArtifactRequest], XsftError]] = {
        400: _invalid,
        403: _forbidden,
        404: _repository_missing,
        429: _quota_exceeded_error,
    }
    make = known.get(code or 0)
    return make(message, request) if make else timed_out(f"HTTP {code} {message}" if code else message, request)


def no_login(message: str) -> Unreachable:
    return Unreachable(
        f"Not logged in to Artifact Registry: {shorten_message(message)}.",
        fix=LOG_IN_GOOGLE,
        id="registry-login-missing",
    )


def timed_out(message: str, request: ArtifactRequest) -> Unreachable:
    return Unreachable(
        f"Artifact Registry returned an error for {request.repository.docker}: {shorten_message(message)}",
        fix="Check the network and try again; status.cloud.google.com shows whether Artifact Registry is up.",
        id="registry-unreachable",
    )


def not_docker(name: str, format: str) -> UsageError:
    return UsageError(
        f"{name} holds packages in {format} format, not images.",
        fix="Use another repository; `xsft image push --create` creates one for images.",
        id="repository-not-docker",
    )


def about_project(message: str) -> bool:
    """Return whether the project is missing; a missing repository is named `projects/p/locations/…`."""
    return re.search(r"(?<![\w/-])project(?![\w/-])", message, re.IGNORECASE) is not None


def _repository_missing(message: str, request: ArtifactRequest) -> EnvironmentMissing:
    repository = request.repository
    create = (
        f"gcloud artifacts repositories create {repository.name} --repository-format=docker "
        f"--location={repository.location} --project={repository.project}"
    )
    if about_project(message):
        return EnvironmentMissing(
            f"Project {repository.project} was not found, or you may not read it: {shorten_message(message)}",
            fix="Correct the project in the registry's name; `gcloud projects list` lists yours.",
            id="project-missing",
        )
    return RepositoryMissing(
        f"Repository {repository.docker} was not found.",
        fix=f"Create it: xsft image push --create, or {create}.",
    )


def _forbidden(message: str, request: ArtifactRequest) -> XsftError:
    """Return the error for HTTP 403; Google returns it both for a missing repository and a missing permission."""
    repository = request.repository
    if re.search(r"CONSUMER_INVALID|resource project", message):
        return _repository_missing(f"project: {message}", request)
    if re.search(r"'(?:projects/[^/']+/)?locations/[^/']+' .*may not exist", message):
        return _invalid(message, request)
    return Unreachable(
        f"You may not {request.permission} on {repository.docker} (or it does not exist): {shorten_message(message)}",
        fix=f"Ask for {request.role} on the project {repository.project}, or on the repository; "
        "pushing needs roles/artifactregistry.writer.",
        id="registry-forbidden",
    )


def _invalid(message: str, request: ArtifactRequest) -> UsageError:
    repository = request.repository
    return UsageError(
        f"Artifact Registry rejected {repository.docker}: {shorten_message(message)}",
        fix=f"Check the location {repository.location!r} (gcloud artifacts locations list), the project "
        f"{repository.project!r} and the repository {repository.name!r} in the name.",
        id="artifact-repository",
    )


def _api_disabled_error(message: str, request: ArtifactRequest) -> EnvironmentMissing:
    project = request.repository.project
    return EnvironmentMissing(
        f"Artifact Registry is not enabled in the project {project}: {shorten_message(message)}",
        fix=f"Enable it: gcloud services enable artifactregistry.googleapis.com --project={project}.",
        id="artifact-registry-disabled",
    )


def _quota_exceeded_error(message: str, request: ArtifactRequest) -> Unreachable:
    return Unreachable(
        f"Artifact Registry's quota is exceeded for {request.repository.docker}: {shorten_message(message)}",
        fix="Try again in a few minutes.",
        id="registry-rate-limited",
    )

"""Parse names of Artifact Registry repositories. Pure.

source: Artifact Registry documentation, "Repository and image names", "Repository locations"; Resource Manager's, for
project ids.
"""

from __future__ import annotations

import re

from msgspec import Struct

from xsft.base.errors import UsageError
from xsft.image.reference import replacement

_HOSTS = re.compile(r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev")
_LOCATION = re.compile(r"us|europe|asia|[a-z]+(?:-[a-z]+)?-[a-z]+[0-9]+")
_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?|(?:(?:us|eu|asia)\.)?gcr\.io")
_PROJECT = re.compile(r"(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")


class Repository(Struct, frozen=True, kw_only=True):
    """A repository in Artifact Registry: project, location and name."""

    project: str
    location: str
    """Region or multi-region: `us`, `europe-west4`."""
    name: str

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.location}"

    @property
    def docker(self) -> str:
        """Return its name for Docker, without an image: `us-docker.pkg.dev/my-project/xsft`."""
        return f"{self.location}-docker.pkg.dev/{self.project.replace(':', '/')}/{self.name}"


def repository_of(repository: str) -> Repository | None:
    """Parse `LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE…` or a gcr.io name; return None for any other host.

    Raises UsageError, artifact-repository, when the location, project or repository is invalid.
    """
    host, *parts = (replacement(repository) or repository).split("/")
    match = _HOSTS.fullmatch(host)
    if match is None:
        return None
    if parts and "." in parts[0]:  # a domain-scoped project
        parts = [":".join(parts[:2]), *parts[2:]]
    if len(parts) < 2:
        raise _invalid_repository(repository, "it has no repository")
    parsed = Repository(project=parts[0], location=match["location"], name=parts[1].partition(":")[0].partition("@")[0])
    for what, value, form in (
        ("location", parsed.location, _LOCATION),
        ("project", parsed.project, _PROJECT),
        ("repository", parsed.name, _NAME),
    ):
        if not form.fullmatch(value):
            raise _invalid_repository(repository, f"{value!r} is not a valid {what}")
    return parsed


def _invalid_repository(repository: str, why: str) -> UsageError:
    return UsageError(
        f"{repository!r} is not an Artifact Registry repository: {why}.",
        fix="Write LOCATION-docker.pkg.dev/PROJECT/REPOSITORY, e.g. us-docker.pkg.dev/my-project/xsft.",
        id="artifact-repository",
    )

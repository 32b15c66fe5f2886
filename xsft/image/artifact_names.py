"""What a repository of Artifact Registry is called. Pure.

source: Artifact Registry documentation, "Repository and image names", "Repository locations"; Resource Manager's, for
project ids.
"""

from __future__ import annotations

import re

from msgspec import Struct

from xsft.errors import UsageError
from xsft.image.reference import replacement

_HOSTS = re.compile(r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev")
_LOCATION = re.compile(r"us|europe|asia|[a-z]+(?:-[a-z]+)?-[a-z]+[0-9]+")
_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?|(?:(?:us|eu|asia)\.)?gcr\.io")
_PROJECT = re.compile(r"(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")


class Repository(Struct, frozen=True, kw_only=True):
    """Where images of a project lie."""

    project: str
    location: str
    """`us`, `europe-west4`."""
    name: str

    @property
    def path(self) -> str:
        """Its name in the API."""
        return f"{self.parent}/repositories/{self.name}"

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.location}"

    @property
    def docker(self) -> str:
        """As Docker names it; images lie below."""
        return f"{self.location}-docker.pkg.dev/{self.project.replace(':', '/')}/{self.name}"


def repository_of(repository: str) -> Repository | None:
    """Of `LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE…` or of a gcr.io name; None where it is not Google's.

    Raises UsageError, artifact-repository, where the location, project or repository in it cannot be.
    """
    host, *parts = (replacement(repository) or repository).split("/")
    found = _HOSTS.fullmatch(host)
    if found is None:
        return None
    if parts and "." in parts[0]:  # a domain-scoped project
        parts = [":".join(parts[:2]), *parts[2:]]
    if len(parts) < 2:
        raise _wrong(repository, "it names no repository")
    made = Repository(project=parts[0], location=found["location"], name=parts[1].partition(":")[0].partition("@")[0])
    for what, value, form in (
        ("location", made.location, _LOCATION),
        ("project", made.project, _PROJECT),
        ("repository", made.name, _NAME),
    ):
        if not form.fullmatch(value):
            raise _wrong(repository, f"{value!r} cannot be a {what}")
    return made


def _wrong(repository: str, why: str) -> UsageError:
    return UsageError(
        f"{repository!r} is no repository of Artifact Registry: {why}.",
        fix="Write LOCATION-docker.pkg.dev/PROJECT/REPOSITORY, e.g. us-docker.pkg.dev/my-project/xsft.",
        id="artifact-repository",
    )

"""Parsing of Artifact Registry repository names, and refusals that quote the wrong part."""

from __future__ import annotations

import pytest

from xsft.base.errors import UsageError
from xsft.image.artifact_names import Repository, repository_of


@pytest.mark.parametrize(
    ("name", "project", "location", "repository"),
    [
        ("us-docker.pkg.dev/my-project/xsft", "my-project", "us", "xsft"),
        ("europe-west4-docker.pkg.dev/my-project/xsft/post-training", "my-project", "europe-west4", "xsft"),
        ("us-docker.pkg.dev/my-project/xsft/a/b:tag", "my-project", "us", "xsft"),
        ("northamerica-northeast1-docker.pkg.dev/my-project/xsft", "my-project", "northamerica-northeast1", "xsft"),
        ("us-docker.pkg.dev/example.com/my-project/xsft/i", "example.com:my-project", "us", "xsft"),
        ("gcr.io/my-project/image", "my-project", "us", "gcr.io"),
        ("eu.gcr.io/my-project/image", "my-project", "europe", "eu.gcr.io"),
    ],
)
def test_repository_of_reads_names_of_artifact_registry(
    name: str, project: str, location: str, repository: str
) -> None:
    found = repository_of(name)
    assert found == Repository(project=project, location=location, name=repository)
    assert found.parent == f"projects/{project}/locations/{location}"


@pytest.mark.parametrize("name", ["127.0.0.1:5000/xsft/image", "ghcr.io/me/image", "pkg.dev/a/b", "my-image"])
def test_names_of_other_registries_are_none(name: str) -> None:
    assert repository_of(name) is None


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("us-docker.pkg.dev/my-project", "it has no repository"),
        ("us-docker.pkg.dev", "it has no repository"),
        ("moon-docker.pkg.dev/my-project/xsft", "'moon' is not a valid location"),
        ("us-docker.pkg.dev/My/xsft", "'My' is not a valid project"),
        ("us-docker.pkg.dev/my-project/1xsft", "'1xsft' is not a valid repository"),
        ("us-docker.pkg.dev/my-project/xsft-/i", "'xsft-' is not a valid repository"),
    ],
)
def test_refusal_quotes_the_wrong_part_of_a_repository_name(name: str, what: str) -> None:
    with pytest.raises(UsageError, match=what) as refused:
        repository_of(name)
    assert refused.value.problem_id == "artifact-repository"


def test_repository_has_its_docker_name() -> None:
    assert Repository(project="example.com:p", location="us", name="r").docker == "us-docker.pkg.dev/example.com/p/r"

"""Image references and repository names: parsing, refusals with the reason, and hosts that may receive a login."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.base.errors import UsageError
from xsft.base.network_words import is_loopback
from xsft.image.reference import (
    Reference,
    Repository,
    base_url,
    is_google,
    is_untagged,
    legacy_warning,
    may_receive_login,
    parse_image_name,
    parse_reference,
    parse_repository,
    replacement,
    repository_of,
    tag_of,
)

HEX = "0" * 64
DIGEST = f"sha256:{HEX}"
WORDS = st.from_regex(r"[a-z0-9]{1,8}([._-][a-z0-9]{1,4})?", fullmatch=True)
HOSTS = st.sampled_from(["", "127.0.0.1:5000", "localhost", "us-docker.pkg.dev", "gcr.io", "registry.example.com:443"])
TAGS = st.none() | st.from_regex(r"[A-Za-z0-9_][-._A-Za-z0-9]{0,20}", fullmatch=True)


@given(HOSTS, st.lists(WORDS, min_size=1, max_size=4), TAGS, st.sampled_from([None, DIGEST]))
def test_formatted_reference_is_parsed_back(host: str, path: list[str], tag: str | None, digest: str | None) -> None:
    if not host and len(path) > 1 and "." in path[0]:
        path[0] = path[0].replace(".", "-")  # it would be a host
    built = Reference(host=host, repository="/".join(path), tag=tag, digest=digest)
    assert parse_reference(str(built)) == built
    assert tag_of(str(built)) == tag
    assert is_untagged(str(built)) == (tag is None and digest is None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("my image:v1", "contains a space"),
        ("image;rm", "';'"),
        ("image$(id)", "'$()'"),
        ("image`id`", "'`'"),
        ("us-docker.pkg.dev/P/Image:v1", "Did you mean us-docker.pkg.dev/p/image:v1?"),
        ("image@sha256:abc", "64 hex digits"),
        ("image@sha256", "64 hex digits"),
        ("image@sha512:" + HEX, "64 hex digits"),
        ("image:", "the tag ''"),
        ("image:-v1", "the tag '-v1'"),
        ("image:v1:v2", "the tag 'v1:v2'"),
        ("a//b", "the part ''"),
        ("/a", "the part ''"),
        ("-registry.example.com/a", "not a valid registry host"),
        ("a" * 300, "300 characters"),
    ],
)
def test_invalid_reference_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_reference(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("127.0.0.1:5000/team:v1", "remove :v1"),
        (f"127.0.0.1:5000/team@{DIGEST}", "remove @sha256"),
        ("team/images", "has no registry"),
    ],
)
def test_a_repository_has_a_host_and_neither_tag_nor_digest(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_repository(text)
    assert parse_repository("us-docker.pkg.dev/my-project/xsft/").name == "us-docker.pkg.dev/my-project/xsft"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("gcr.io/my-project/image:v1", "us-docker.pkg.dev/my-project/gcr.io/image:v1"),
        ("us.gcr.io/my-project/image", "us-docker.pkg.dev/my-project/us.gcr.io/image"),
        ("eu.gcr.io/my-project/a/b", "europe-docker.pkg.dev/my-project/eu.gcr.io/a/b"),
        ("asia.gcr.io/my-project/image", "asia-docker.pkg.dev/my-project/asia.gcr.io/image"),
        ("gcr.io/example.com/my-project/image", "us-docker.pkg.dev/example.com/my-project/gcr.io/image"),
        ("us-docker.pkg.dev/my-project/image", None),
        ("xgcr.io/my-project/image", None),
    ],
)
def test_gcr_address_is_replaced_by_its_artifact_registry_address(old: str, new: str | None) -> None:
    assert replacement(old) == new
    problem = legacy_warning(old, where="image.ref")
    assert (problem is None) == (new is None)
    assert problem is None or (
        problem.id == "image-legacy-registry" and problem.severity == "warning" and str(new) in problem.fix
    )


@pytest.mark.parametrize(
    ("ref", "host", "path", "reference"),
    [
        ("us-docker.pkg.dev/p/r/i:1", "us-docker.pkg.dev", "p/r/i", "1"),
        (f"h.dev:5000/i:1@{DIGEST}", "h.dev:5000", "i", DIGEST),
        ("localhost/i", "localhost", "i", "latest"),
        ("python:3.12-slim", "docker.io", "library/python", "3.12-slim"),
        ("bitnami/redis", "docker.io", "bitnami/redis", "latest"),
    ],
)
def test_image_name_is_parsed_to_host_path_and_reference(ref: str, host: str, path: str, reference: str) -> None:
    parsed = parse_image_name(ref)
    assert (parsed.host, parsed.repository, parsed.identifier) == (host, path, reference)


@pytest.mark.parametrize("ref", ["a b", "h.dev/x;rm", "h.dev/UPPER", "", "h.dev/i@sha256:12"])
def test_invalid_image_name_is_refused(ref: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_image_name(ref)
    assert refused.value.problem_id == "image-reference"


def test_registry_addresses_use_http_only_on_loopback() -> None:
    assert base_url("docker.io") == "https://registry-1.docker.io"
    assert base_url("127.0.0.1:5000") == "http://127.0.0.1:5000"
    assert base_url("10.0.0.1:5000") == "https://10.0.0.1:5000"
    assert base_url("[::1]:5000") == "http://[::1]:5000"
    assert is_loopback("::1")
    assert not is_loopback("127.0.0.1.example.com")


@pytest.mark.parametrize(
    ("host", "google"),
    [
        ("us-docker.pkg.dev", True),
        ("gcr.io", True),
        ("eu.gcr.io", True),
        ("xgcr.io", False),
        ("my-pkg.dev", False),
        ("pkg.dev", False),
        ("gcr.io.example.com", False),
        ("gcr.io:5000", False),
    ],
)
def test_only_registries_of_google_get_the_google_login(host: str, google: bool) -> None:
    assert is_google(host) is google


@pytest.mark.parametrize(
    ("realm", "host", "receives"),
    [
        ("https://auth.docker.io/token", "docker.io", True),
        ("https://us-docker.pkg.dev/v2/token", "us-docker.pkg.dev", True),
        ("https://login.example.net/token", "registry.example.com", True),
        ("http://auth.docker.io/token", "docker.io", False),
        ("http://127.0.0.1:9/token", "127.0.0.1:5000", True),
        ("http://[::1]:9/token", "[::1]:5000", True),
        ("http://elsewhere.example/token", "127.0.0.1:5000", False),
        ("http://127.0.0.1:9/token", "docker.io", False),
        ("https://127.0.0.1:9/token", "docker.io", False),
        ("", "docker.io", False),
    ],
)
def test_a_login_goes_to_a_token_service_only_over_tls_or_from_loopback_to_loopback(
    realm: str, host: str, receives: bool
) -> None:
    assert may_receive_login(realm, host) is receives


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
    registry_repository = repository_of(name)
    assert registry_repository == Repository(project=project, location=location, name=repository)
    assert registry_repository.parent == f"projects/{project}/locations/{location}"


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

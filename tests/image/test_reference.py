"""Image references: parsing, formatting, and refusals with the reason."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.image.reference import (
    Reference,
    is_untagged,
    legacy_warning,
    parse_reference,
    parse_repository,
    replacement,
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
    made = Reference(host=host, repository="/".join(path), tag=tag, digest=digest)
    assert parse_reference(str(made)) == made
    assert tag_of(str(made)) == tag
    assert is_untagged(str(made)) == (tag is None and digest is None)


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
    found = legacy_warning(old, where="image.ref")
    assert (found is None) == (new is None)
    assert found is None or (
        found.id == "image-legacy-registry" and found.severity == "warning" and str(new) in found.fix
    )

"""The registry of an image name, and the hosts that may receive its login."""

from __future__ import annotations

import pytest

from xsft.base.errors import UsageError
from xsft.base.network_words import is_loopback
from xsft.image.reference import base_url, is_google, may_receive_login, parse_image_name

DIGEST = "sha256:" + "0" * 64


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

"""The proxy that misbehaves, against the real registry and the real client."""

from __future__ import annotations

import hashlib

import pytest

from tests.engine.badproxy import BadProxy, Fault
from tests.engine.daemon import Engine
from tests.engine.registryserver import Registry

DOCKERFILE = b"FROM scratch\nCOPY data /data\n"
UPLOAD = "^(PATCH|PUT) /v2/.*/blobs/uploads/"

pytestmark = pytest.mark.engine


@pytest.fixture
def reference(engine: Engine, bad_proxy: BadProxy, registry: Registry) -> str:
    """An image of one layer of 3 MB that does not compress, new for each test, to be pushed through the proxy."""
    context = engine.folder / f"context-{registry.repository}"
    context.mkdir()
    (context / "Dockerfile").write_bytes(DOCKERFILE)
    (context / "data").write_bytes(b"".join(hashlib.sha256(f"{context}{n}".encode()).digest() for n in range(100_000)))
    tag = f"{bad_proxy.address}/{registry.repository}:v1"
    engine.docker("build", "-q", "-t", tag, str(context))
    return tag


def test_it_passes_a_push_through(engine: Engine, bad_proxy: BadProxy, registry: Registry, reference: str) -> None:
    engine.docker("push", reference)
    assert registry.digest("v1")
    assert sum(registry.layers("v1").values()) < bad_proxy.sent("^PATCH") < 4_000_000


def test_a_body_cut_half_way_is_cut(engine: Engine, bad_proxy: BadProxy, registry: Registry, reference: str) -> None:
    bad_proxy.faults.append(Fault(on=UPLOAD, action="cut", after_bytes=1_000_000))
    engine.docker("push", reference)  # the engine itself begins that layer again, after 5 s
    assert [seen.body_bytes for seen in bad_proxy.seen if seen.code == 0] == [1_000_000]
    assert bad_proxy.sent("^PATCH") > 1_000_000 + sum(registry.layers("v1").values())


@pytest.mark.parametrize("code", [429, 500])
def test_what_is_refused_some_times_passes_after(
    engine: Engine, bad_proxy: BadProxy, registry: Registry, reference: str, code: int
) -> None:
    bad_proxy.faults.append(Fault(on="^PUT /v2/.*/manifests/", code=code, headers={"Retry-After": "1"}, times=1))
    refused = engine.docker("push", reference, check=False)
    assert refused.returncode != 0, "the client itself does not retry a manifest"
    engine.docker("push", reference)
    assert bad_proxy.count("^PUT /v2/.*/manifests/") == 2
    assert registry.digest("v1")


def test_without_the_login_it_refuses(engine: Engine, bad_proxy: BadProxy, registry: Registry, reference: str) -> None:
    user, password = "somebody", hashlib.sha256(reference.encode()).hexdigest()
    bad_proxy.login = f"{user}:{password}"
    assert engine.docker("push", reference, check=False).returncode != 0
    login = ("login", "--username", user, "--password-stdin", bad_proxy.address)
    assert engine.docker(*login, input=b"wrong", check=False).returncode != 0
    engine.docker(*login, input=password.encode())
    engine.docker("push", reference)
    engine.docker("logout", bad_proxy.address)
    assert registry.digest("v1")

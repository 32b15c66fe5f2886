"""The proxy that misbehaves, against the real registry and the real client; tests/image/test_engine.py
has its faults.
"""

from __future__ import annotations

import hashlib

import pytest

from tests.engine.badproxy import BadProxy
from tests.engine.daemon import Engine
from tests.engine.registryserver import Registry

DOCKERFILE = b"FROM scratch\nCOPY data /data\n"

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


def test_the_bad_proxy_passes_a_push_through(
    engine: Engine, bad_proxy: BadProxy, registry: Registry, reference: str
) -> None:
    engine.docker("push", reference)
    assert registry.digest("v1")
    assert sum(registry.layers("v1").values()) < bad_proxy.sent("^PATCH") < 4_000_000


def test_the_bad_proxy_refuses_a_push_without_the_login(
    engine: Engine, bad_proxy: BadProxy, registry: Registry, reference: str
) -> None:
    user, password = "somebody", hashlib.sha256(reference.encode()).hexdigest()
    bad_proxy.login = f"{user}:{password}"
    assert engine.docker("push", reference, check=False).returncode != 0
    login = ("login", "--username", user, "--password-stdin", bad_proxy.address)
    assert engine.docker(*login, input=b"wrong", check=False).returncode != 0
    engine.docker(*login, input=password.encode())
    engine.docker("push", reference)
    engine.docker("logout", bad_proxy.address)
    assert registry.digest("v1")

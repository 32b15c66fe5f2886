"""Fixtures: a real Docker engine, a real registry, a base image. Each is skipped, loudly, where it cannot be here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.engine import base, daemon, registryserver
from tests.engine.badproxy import BadProxy, misbehaving
from tests.engine.base import BaseImage
from tests.engine.children import DidNotStart
from tests.engine.daemon import Engine
from tests.engine.machine import disk_folder, which, why_no_engine
from tests.engine.network import NotAllowed
from tests.engine.registryserver import Registry
from tests.engine.slots import Slot, slot
from tests.replacing import replace
from xsft.machine.paths import own_cache

POST_TRAINING = Path(__file__).parents[2] / "images" / "post_training"


NOT_PERMITTED = re.compile(r"not permitted|Permission denied", re.IGNORECASE)
"""How a container without the capabilities says so."""


@pytest.fixture(scope="session")
def engine_slot() -> Iterator[Slot]:
    """Reserve a folder on a disk for this session."""
    if why := why_no_engine(has=which, uid=os.geteuid()):
        pytest.skip(why)
    with slot(disk_folder((own_cache() / "tests-engine", Path("/var/tmp/xsft-tests-engine")))) as slots:
        yield slots


@pytest.fixture(scope="session")
def engine(engine_slot: Slot) -> Iterator[Engine]:
    """A Docker engine of this session's own, gone with it; the machine's is not touched."""
    with ExitStack() as stack:
        try:
            running = stack.enter_context(daemon.running(engine_slot))
        except (DidNotStart, NotAllowed) as problem:
            if not NOT_PERMITTED.search(str(problem)):
                raise
            pytest.skip(f"no Docker engine of the tests' own: this root may not start one: {problem}")
        yield running


@pytest.fixture(scope="session")
def registry_server(engine_slot: Slot) -> Iterator[Registry]:
    """One registry for the session; tests take `registry`."""
    if not which("docker-registry"):
        pytest.skip("no registry: docker-registry is missing here (Debian package of that name)")
    folder = engine_slot.folder / "registry"
    folder.mkdir()
    with registryserver.serving(folder) as serving:
        yield serving


@pytest.fixture
def registry(registry_server: Registry, request: pytest.FixtureRequest) -> Registry:
    """The session's registry, with a repository that only this test uses."""
    return replace(registry_server, repository=re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-"))


@pytest.fixture
def bad_proxy(registry_server: Registry) -> Iterator[BadProxy]:
    """A proxy before the registry that misbehaves on demand; Docker can push to its `address`."""
    with misbehaving(registry_server.address) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def base_image(engine: Engine) -> BaseImage:
    """Return an image for the place of python:3.12-slim, made on this machine."""
    try:
        return base.make(engine, own_cache() / "tests-engine")
    except base.NoBase as why:
        pytest.skip(f"no base image: {why}")


@pytest.fixture(scope="session")
def deps_image(engine: Engine, base_image: BaseImage) -> str:
    """The real deps image of images/post_training, built once for the session: one to five minutes, 2.6 GB."""
    conf = engine.folder / "machine-pip.conf"
    conf.write_text(base_image.pip_conf, encoding="utf-8")
    base_argument = f"--build-arg=BASE_IMAGE={base_image.reference}"
    secret = ("--secret", f"id=pip_conf,src={conf}")
    engine.docker("build", "-t", "xsft-tests-deps", *secret, base_argument, str(POST_TRAINING))
    return "xsft-tests-deps"

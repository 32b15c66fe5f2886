"""Two builds of one image at the same moment: the slow part is done once, and both end right."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.contract.imagelab import Project, project
from tests.engine.base import BaseImage
from tests.engine.daemon import Engine
from tests.engine.registryserver import Registry
from tests.fakes.loopback import serving_http

pytestmark = pytest.mark.engine

DOCKERFILE = """\
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY requirements.txt /lock.txt
RUN python3 -c "import urllib.request as r; r.urlopen('WHERE')"
COPY deps.json /usr/share/xsft/deps.json
"""
LASTS_S = 3.0
WITHIN_S = 200.0


@dataclass
class Slow:
    """A slow answer for a build, which counts its calls."""

    url: str = ""
    asked: list[float] = field(default_factory=list)


@contextmanager
def slow(host: str) -> Iterator[Slow]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(time.monotonic())
            time.sleep(LASTS_S)
            self.send_response(200)
            self.end_headers()

    found = Slow()
    with serving_http(Handler, host=host) as url:
        found.url = f"{url}/"
        yield found


@pytest.fixture
def slow_server(engine: Engine) -> Iterator[Slow]:
    with slow(engine.gateway) as running:
        yield running


@pytest.fixture
def small(engine: Engine, tmp_path: Path, slow_server: Slow, request: pytest.FixtureRequest) -> Project:
    new_project = project(tmp_path, engine, salt=request.node.name)
    (tmp_path / "images" / "small" / "Dockerfile").write_text(
        DOCKERFILE.replace("WHERE", slow_server.url), encoding="utf-8"
    )
    return new_project


@pytest.mark.parametrize("action", ["build", "push"])
def test_two_concurrent_builds_of_one_image_do_the_slow_part_once_and_agree(
    small: Project, base_image: BaseImage, registry: Registry, slow_server: Slow, action: str
) -> None:
    where = f"--registry={registry.address}/{registry.repository}"
    arguments = ("image", action, "--image=small", f"--base={base_image.reference}", where, "--json")
    both = [small.start(*arguments) for _ in range(2)]
    outputs = [running.communicate(timeout=WITHIN_S) for running in both]
    assert [running.returncode for running in both] == [0, 0], outputs
    documents = [json.loads(out) for out, _ in outputs]
    assert len(slow_server.asked) == 1
    assert len({(document["deps"]["tag"], document["code"]["tag"]) for document in documents}) == 1
    if action == "build":
        assert not small.lock.exists()
        return
    (locked,) = small.locked().values()
    images_there = Registry(registry.address, f"{registry.repository}/small")
    assert {document["lock"]["digest"] for document in documents} == {locked["digest"]}
    assert images_there.digest(documents[0]["code"]["tag"]) == locked["digest"]

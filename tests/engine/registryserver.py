"""A real registry (Debian's docker-registry) on loopback, and what a test asks it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.control_plane.ports import free_port
from tests.engine.children import start

UP_WITHIN_S = 120.0
ACCEPT = "application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True)
class Registry:
    address: str
    """`127.0.0.1:PORT`; Docker takes loopback without TLS."""
    repository: str = ""
    """Name of this test's own repository, e.g. `test-push-1`."""

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def reference(self, tag: str) -> str:
        """`ADDRESS/REPOSITORY:TAG` for this test's repository."""
        return f"{self.address}/{self.repository}:{tag}"

    def digest(self, tag: str) -> str | None:
        """Digest of the manifest that `tag` names, or None."""
        response = self._get(f"/v2/{self.repository}/manifests/{tag}")
        return response.headers["Docker-Content-Digest"] if response else None

    def manifest(self, tag: str) -> dict[str, Any]:
        response = self._get(f"/v2/{self.repository}/manifests/{tag}")
        assert response, f"{self.reference(tag)} is not there"
        return dict(json.load(response))

    def layers(self, tag: str) -> dict[str, int]:
        """Digest to stored bytes of each layer, the base's first."""
        return {layer["digest"]: layer["size"] for layer in self.manifest(tag)["layers"]}

    def tags(self) -> list[str]:
        response = self._get(f"/v2/{self.repository}/tags/list")
        return sorted(json.load(response)["tags"] or ()) if response else []

    def is_up(self) -> bool:
        try:
            return self._get("/v2/") is not None
        except OSError:
            return False

    def _get(self, path: str) -> Any:
        request = urllib.request.Request(f"{self.url}{path}", headers={"Accept": ACCEPT})
        try:
            return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10)
        except urllib.error.HTTPError as answer:
            answer.close()
            if answer.code == 404:
                return None
            raise


@contextmanager
def serving(folder: Path) -> Iterator[Registry]:
    """A registry that keeps its blobs under `folder`, stopped at the end. Raises DidNotStart."""
    registry = Registry(address=f"127.0.0.1:{free_port()}")
    config = folder / "registry.yml"
    config.write_text(yaml.safe_dump(_config(registry.address, folder / "blobs")), encoding="utf-8")
    child = start(("docker-registry", "serve", str(config)), log=folder / "registry.log")
    try:
        child.wait_until(registry.is_up, within_s=UP_WITHIN_S)
        yield registry
    finally:
        child.stop()


def _config(address: str, blobs: Path) -> dict[str, Any]:
    return {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(blobs)}, "delete": {"enabled": True}},
        # behind tests/engine/badproxy.py too: a Location must name neither of the two
        "http": {"addr": address, "relativeurls": True, "secret": "tests"},
    }

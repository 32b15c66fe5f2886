"""Whether an image exists, and its packages: read from a small registry; a failure is never an error."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
import requests

from tests.engine.badproxy import BadProxy
from tests.engine.daemon import Engine
from tests.engine.registryserver import Registry
from tests.engine.steps import step
from tests.fakes.loopback import serving_http
from xsft.effects.images import docker_client
from xsft.effects.images.docker_build import build, find_client
from xsft.effects.images.docker_push import pusher
from xsft.effects.images.seen import look_at_image
from xsft.image.contents import contents_of

NOWHERE = {"HOME": "/nowhere", "PATH": ""}
DIGEST = "sha256:" + "0" * 64


@contextmanager
def registry(labels: dict[str, str] | None, *, status: int = 200) -> Iterator[str]:
    env = ["ENV_DEVICE=tpu", "PATH=/bin"]
    run = {"Labels": labels, "Env": env, "Entrypoint": ["/serve"]}
    config = json.dumps({"os": "linux", "architecture": "arm64", "config": run}).encode()
    digest = f"sha256:{hashlib.sha256(config).hexdigest()}"
    kind = "application/vnd.docker.distribution.manifest.v2+json"
    manifest = json.dumps({"mediaType": kind, "config": {"digest": digest, "size": len(config)}, "layers": []}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = manifest if "/manifests/" in self.path else config
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving_http(Handler) as url:
        yield url.removeprefix("http://")


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("status", "found"),
    [(200, "there"), (404, "missing"), *((code, "unread") for code in (401, 403, 500, 301, 307))],
)
def test_look_at_image_maps_the_registrys_status(status: int, found: str) -> None:
    with registry({}, status=status) as host:
        look = look_at_image(f"{host}/team/image:v1", env=NOWHERE)
    assert look.status == found
    assert (look.why != "") is (found == "unread")
    assert look.asked_with == "no login"


@pytest.mark.parametrize("ref", ["python:3.12", "library/python:3.12", "no name", ""])
def test_a_name_without_a_registry_is_unread(ref: str) -> None:
    assert look_at_image(ref, env=NOWHERE).status == "unread"


def test_platform_labels_and_packages_are_read() -> None:
    labels = {"dev.xsft.maxtext.version": "0.2.4", "dev.xsft.packages": "jax==0.11.0 libtpu==0.0.44"}
    with registry(labels) as host:
        look = look_at_image(f"{host}/team/image:v1", env=NOWHERE)
    assert look.configuration is not None
    assert look.configuration.platforms == ("linux/arm64",)
    assert look.configuration.entrypoint == ("/serve",)
    assert look.configuration.env == {"ENV_DEVICE": "tpu"}, "not the others"
    packages = contents_of(look.configuration, look.ref).packages
    assert packages == {"maxtext": "0.2.4", "jax": "0.11.0", "libtpu": "0.0.44"}


@pytest.mark.parametrize("ref", ["us-docker.pkg.dev/p/r/i:1", "gcr.io/p/i:1"])
def test_google_registries_get_no_request_without_a_login(ref: str) -> None:
    env = {**NOWHERE, "STORAGE_EMULATOR_HOST": "http://127.0.0.1:1"}
    look = look_at_image(ref, env=env)
    assert (look.status, look.asked_with) == ("unread", "no login")


@pytest.mark.engine
def test_look_at_image_ignores_netrc(
    engine: Engine, bad_proxy: BadProxy, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registry requires the user's Docker login; ~/.netrc has another login for every host."""
    made = step(tmp_path / "image", {"data": registry.repository}, labels={"dev.xsft.maxtext.version": "0.2.5"})
    docker, repository = docker_client.connect_engine(engine.env), f"{bad_proxy.address}/{registry.repository}"
    build(made, engine=docker, client=find_client(engine.env), names=("xsft-test/netrc:1",))
    pusher(docker).push("xsft-test/netrc:1", repository=repository, tag="code-1")
    own, netrc = f"me:{secrets.token_hex()}", secrets.token_hex()
    (tmp_path / ".netrc").write_text(f"default login somebody password {netrc}\n")
    (tmp_path / ".netrc").chmod(0o600)
    (tmp_path / ".docker").mkdir()
    auths = {bad_proxy.address: {"auth": base64.b64encode(own.encode()).decode()}}
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"auths": auths}))
    monkeypatch.setenv("HOME", str(tmp_path))
    bad_proxy.login, bad_proxy.seen[:] = own, []
    env = {"HOME": str(tmp_path)}
    look = look_at_image(f"{repository}:code-1", env=env)
    assert look.configuration is not None
    assert (look.asked_with, look.configuration.platforms) == ("your login", ("linux/amd64",))
    assert look.configuration.size > 0
    assert contents_of(look.configuration, look.ref).packages == {"maxtext": "0.2.5"}
    assert look_at_image(f"{repository}:code-2", env=env).status == "missing"
    assert {seen.login for seen in bad_proxy.seen} == {"", own}


@pytest.mark.engine
@pytest.mark.parametrize(("labels", "jax"), [({}, "0.11.0"), ({"dev.xsft.packages": "jax==0.10.2"}, "0.10.2")])
def test_look_at_image_reads_packages_from_a_buildkit_sbom(
    registry: Registry, labels: dict[str, str], jax: str
) -> None:
    """The documents are those of moby/buildkit docs/attestations/attestation-storage.md, with syft's purls."""
    purls = (
        "pkg:pypi/jax@0.11.0",
        "pkg:pypi/google_tunix@0.1.7?arch=any",
        "pkg:deb/debian/maxtext@9.9",
        "pkg:pypi/numpy@2.1",
    )
    listed = [{"name": "x", "externalRefs": [{"referenceLocator": purl}]} for purl in purls]
    sbom = {"predicateType": "https://spdx.dev/Document", "predicate": {"packages": listed}}
    config = {"os": "linux", "architecture": "amd64", "config": {"Labels": labels}}
    image = manifest_of(registry, put_blob(registry, config))
    kept = {**put_blob(registry, sbom), "mediaType": "application/vnd.in-toto+json"}
    kept["annotations"] = {"in-toto.io/predicate-type": sbom["predicateType"]}
    attested = manifest_of(registry, put_blob(registry, {}), kept)
    about = {"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": image["digest"]}
    manifests = (
        {**image, "platform": {"os": "linux", "architecture": "amd64"}},
        {**attested, "platform": {"os": "unknown", "architecture": "unknown"}, "annotations": about},
    )
    put_manifest(registry, "signed", {"mediaType": INDEX, "schemaVersion": 2, "manifests": manifests})
    look = look_at_image(registry.reference("signed"), env=NOWHERE)
    assert look.configuration is not None, look.why
    assert look.configuration.platforms == ("linux/amd64",)
    packages = {"jax": jax} if labels else {"jax": jax, "google-tunix": "0.1.7"}
    assert contents_of(look.configuration, look.ref).packages == packages


INDEX = "application/vnd.oci.image.index.v1+json"
IMAGE = "application/vnd.oci.image.manifest.v1+json"


def put_blob(registry: Registry, document: Any) -> dict[str, Any]:
    """Push a blob; return its descriptor. source: OCI distribution-spec v1.1, "Pushing a blob monolithically"."""
    content = json.dumps(document).encode()
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    uploads = f"{registry.url}/v2/{registry.repository}/blobs/uploads/"
    begun = requests.post(uploads, timeout=120)
    at = urljoin(uploads, begun.headers["Location"])
    requests.put(at, params={"digest": digest}, data=content, timeout=120).raise_for_status()
    return {"digest": digest, "size": len(content), "mediaType": "application/vnd.oci.image.config.v1+json"}


def manifest_of(registry: Registry, config: dict[str, Any], *layers: dict[str, Any]) -> dict[str, Any]:
    """Push a manifest by its digest; return its descriptor."""
    document = {"mediaType": IMAGE, "schemaVersion": 2, "config": config, "layers": layers}
    content = json.dumps(document).encode()
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    put_manifest(registry, digest, document)
    return {"digest": digest, "size": len(content), "mediaType": IMAGE}


def put_manifest(registry: Registry, name: str, document: dict[str, Any]) -> None:
    url = f"{registry.url}/v2/{registry.repository}/manifests/{name}"
    kind = {"Content-Type": document["mediaType"]}
    requests.put(url, data=json.dumps(document).encode(), headers=kind, timeout=120).raise_for_status()

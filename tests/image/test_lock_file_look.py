"""Whether an image exists, and its packages: read from a small registry; a failure is never an error."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engine.badproxy import BadProxy
from tests.engine.daemon import Engine
from tests.engine.registryserver import Registry
from tests.engine.steps import built, step
from tests.fakes.served import Answer, serving
from xsft.image.contents import contents_of
from xsft.image.engine import connect_engine
from xsft.image.lock_file import look_at_image

NOWHERE = {"HOME": "/nowhere", "PATH": ""}
DIGEST = "sha256:" + "0" * 64


@contextmanager
def registry(labels: dict[str, str] | None, *, status: int = 200) -> Iterator[str]:
    env = ["ENV_DEVICE=tpu", "PATH=/bin"]
    run = {"Labels": labels, "Env": env, "Entrypoint": ["/serve"]}
    config = json.dumps({"os": "linux", "architecture": "arm64", "config": run}).encode()
    digest = f"sha256:{hashlib.sha256(config).hexdigest()}"
    manifest = {"config": {"digest": digest, "size": len(config)}, "layers": []}
    with serving() as served:
        served.answer("/v2/team/image/manifests/v1", Answer(status, manifest, {"Location": "/elsewhere"}))
        served.answer(f"/v2/team/image/blobs/{digest}", Answer(200, config))
        yield served.address


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("status", "expected"),
    [(200, "there"), (404, "missing"), *((code, "unread") for code in (401, 403, 500, 301, 307))],
)
def test_look_at_image_maps_the_registrys_status(status: int, expected: str) -> None:
    with registry({}, status=status) as host:
        look = look_at_image(f"{host}/team/image:v1", env=NOWHERE)
    assert look.status == expected
    assert (look.why != "") is (expected == "unread")
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
    build_step = step(tmp_path / "image", {"data": registry.repository}, labels={"dev.xsft.maxtext.version": "0.2.5"})
    docker, repository = connect_engine(engine.env), f"{bad_proxy.address}/{registry.repository}"
    built(build_step, docker)
    docker.push(build_step.name, repository=repository, tag="code-1", on_line=print)
    own_login, netrc = f"me:{secrets.token_hex()}", secrets.token_hex()
    (tmp_path / ".netrc").write_text(f"default login somebody password {netrc}\n")
    (tmp_path / ".netrc").chmod(0o600)
    (tmp_path / ".docker").mkdir()
    auths = {bad_proxy.address: {"auth": base64.b64encode(own_login.encode()).decode()}}
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"auths": auths}))
    monkeypatch.setenv("HOME", str(tmp_path))
    bad_proxy.login, bad_proxy.seen[:] = own_login, []
    env = {"HOME": str(tmp_path)}
    look = look_at_image(f"{repository}:code-1", env=env)
    assert look.configuration is not None
    assert (look.asked_with, look.configuration.platforms) == ("your login", ("linux/amd64",))
    assert look.configuration.size > 0
    assert contents_of(look.configuration, look.ref).packages == {"maxtext": "0.2.5"}
    assert look_at_image(f"{repository}:code-2", env=env).status == "missing"
    assert {request.login for request in bad_proxy.seen} == {"", own_login}

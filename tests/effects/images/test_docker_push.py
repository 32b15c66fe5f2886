"""Pushes to a real registry that fails: transient errors are retried, and no wrong digest is recorded."""

from __future__ import annotations

import hashlib
import secrets
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.engine.badproxy import BadProxy, Fault, misbehaving
from tests.engine.daemon import Engine as RunningEngine
from tests.engine.registryserver import Registry
from tests.engine.steps import noise, step
from tests.replacing import replace
from xsft.base.errors import Unknown, Unreachable, XsftError
from xsft.effects.images import docker_client
from xsft.effects.images.docker_build import build, find_client
from xsft.effects.images.docker_client import Engine
from xsft.effects.images.docker_login import GOOGLE_USER, Credential
from xsft.effects.images.docker_push import Pusher, pusher
from xsft.effects.images.registry_auth import RegistryLogin
from xsft.effects.images.registry_client import Manifest, Registries
from xsft.image.progress import BuildEvent, Layer, TransferRetry

MANIFEST = "^PUT /v2/.*/manifests/"
UPLOAD = "^(PATCH|PUT) /v2/.*/blobs/uploads/"
SIZE = 3_200_000

pytestmark = pytest.mark.engine


@pytest.fixture
def docker(engine: RunningEngine) -> Engine:
    return docker_client.connect_engine(engine.env)


@pytest.fixture
def image(docker: Engine, registry: Registry, tmp_path: Path) -> str:
    """One layer that does not compress, new for each test."""
    return built(docker, tmp_path / "image", registry.repository)


def built(docker: Engine, folder: Path, name: str) -> str:
    made = step(folder, {"data": noise(str(folder), SIZE)})
    build(made, engine=docker, client=find_client(docker.env), names=(f"xsft-test/{name}:made",))
    return f"xsft-test/{name}:made"


def fast_clock() -> float:
    """Return the pace for a pusher that waits 6 s instead of 31 for a registry that always fails."""
    return 5 * time.monotonic()


def pushing(docker: Engine, waits: list[float]) -> Pusher:
    """Return a pusher whose clock stands still: the engine's own pauses do not count."""
    return replace(pusher(docker), sleep=waits.append, clock=lambda: 0.0)


def test_push_returns_the_digest_that_the_registry_computed(docker: Engine, registry: Registry, image: str) -> None:
    events: list[BuildEvent] = []
    repository = f"{registry.address}/{registry.repository}"
    pushed = pusher(docker).push(image, repository=repository, tag="code-1", on_event=events.append)
    assert pushed == registry.digest("code-1")
    manifest = Registries(env=docker.env).manifest(f"{repository}@{pushed}")
    assert manifest is not None
    assert manifest.size >= sum(registry.layers("code-1").values())
    moved = [event for event in events if isinstance(event, Layer)]
    assert max(event.bytes for event in moved) > SIZE / 2
    assert {event.state for event in moved} >= {"moving", "done"}
    again: list[BuildEvent] = []
    assert pusher(docker).push(image, repository=repository, tag="code-1", on_event=again.append) == pushed
    assert "exists" in {event.state for event in again if isinstance(event, Layer)}


def test_a_pushed_image_pulled_by_digest_is_the_same_image(
    docker: Engine, engine: RunningEngine, registry: Registry, image: str
) -> None:
    before = docker.image(image)
    assert before is not None
    repository = f"{registry.address}/{registry.repository}"
    pushed = pusher(docker).push(image, repository=repository, tag="code-1")
    engine.docker("rmi", "--force", before.id)
    assert docker.image(f"{repository}@{pushed}") is None
    seen = docker.pull(f"{repository}@{pushed}")
    assert seen.id == before.id
    assert seen.digest_in(repository) == pushed


@pytest.mark.parametrize(
    "fault",
    [
        Fault(on=MANIFEST, code=500, times=2),
        Fault(on=MANIFEST, code=503, times=1),
        Fault(on=MANIFEST, code=429, times=2),
        Fault(on=MANIFEST, action="cut", times=2),
        Fault(on=UPLOAD, action="cut", after_bytes=1_000_000, times=1),
    ],
    ids=["500", "503", "429", "cut", "cut-layer"],
)
def test_transient_push_errors_are_retried(
    docker: Engine, bad_proxy: BadProxy, registry: Registry, image: str, fault: Fault
) -> None:
    waits: list[float] = []
    events: list[BuildEvent] = []
    bad_proxy.faults.append(replace(fault))
    repository = f"{bad_proxy.address}/{registry.repository}"
    pushed = pushing(docker, waits).push(image, repository=repository, tag="code-1", on_event=events.append)
    assert pushed == registry.digest("code-1")
    assert bad_proxy.faults[0].times == 0, "it met every one"
    assert waits == sorted(waits)
    assert waits == [event.pause_s for event in events if isinstance(event, TransferRetry)]
    if fault.on == MANIFEST:
        assert waits == [1.0, 2.0][: fault.times]


def test_push_waits_as_long_as_retry_after_says(
    docker: Engine, bad_proxy: BadProxy, registry: Registry, image: str
) -> None:
    waits: list[float] = []
    busy = {"Retry-After": "7"}
    bad_proxy.faults.append(Fault(on=MANIFEST, code=429, headers=busy))
    asked = replace(pushing(docker, waits), registries=Busy(registries=Registries(env=docker.env), pause=7.0))  # type: ignore[arg-type]
    asked.push(image, repository=f"{bad_proxy.address}/{registry.repository}", tag="code-1")
    assert waits == [7.0]


def test_push_fails_at_once_if_retry_after_is_an_hour(
    docker: Engine, bad_proxy: BadProxy, registry: Registry, image: str
) -> None:
    waits: list[float] = []
    bad_proxy.faults.append(Fault(on=MANIFEST, code=429, times=99))
    asked = replace(pushing(docker, waits), registries=Busy(registries=Registries(env=docker.env), pause=3600.0))  # type: ignore[arg-type]
    with pytest.raises(Unreachable) as refused:
        asked.push(image, repository=f"{bad_proxy.address}/{registry.repository}", tag="code-1")
    assert (refused.value.problem_id, waits) == ("registry-rate-limited", [])


class Busy:
    def __init__(self, *, registries: Registries, pause: float) -> None:
        self._registries, self._pause = registries, pause

    def pause_asked(self, host: str) -> float:
        return self._pause

    def __getattr__(self, name: str) -> Any:
        return getattr(self._registries, name)


def test_push_fails_after_five_retries_and_leaves_no_tag(
    docker: Engine, bad_proxy: BadProxy, registry: Registry, image: str
) -> None:
    waits: list[float] = []
    bad_proxy.faults.append(Fault(on=MANIFEST, code=500, times=99))
    with pytest.raises(Unreachable) as failed:
        pushing(docker, waits).push(image, repository=f"{bad_proxy.address}/{registry.repository}", tag="code-1")
    assert failed.value.problem_id == "registry-unreachable"
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert registry.digest("code-1") is None


def test_push_to_a_registry_that_always_fails_ends_within_its_patience(
    docker: Engine, registry: Registry, image: str
) -> None:
    """By the fast clock, patience ends in the engine's second pause: after 6 of the 15 s of both. The two
    registries are tested at once to save time.
    """
    words = {"^POST /v2/.*/blobs/uploads/": "HTTP 500", UPLOAD: "interrupted every attempt"}

    def push(on: str) -> tuple[str, str, int]:
        with misbehaving(registry.address) as proxy:
            proxy.faults.append(Fault(on=on, code=500, times=999))
            started = time.monotonic()
            hasty = replace(pusher(docker_client.connect_engine(docker.env)), clock=fast_clock)
            with pytest.raises(Unreachable) as failed:
                hasty.push(image, repository=f"{proxy.address}/{registry.repository}", tag="code-1")
            time.sleep(max(0.0, 17 - (time.monotonic() - started)))  # the engine's third try would be over
            return failed.value.problem_id or "", failed.value.message, proxy.count(on)

    with ThreadPoolExecutor(2) as pool:
        for (on, said), (problem_id, message, tries) in zip(words.items(), pool.map(push, words), strict=True):
            assert problem_id == "registry-unreachable"
            assert said in message
            own = 1 if "POST" in on else 0  # xsft asks once itself, for the reason
            assert tries <= 2 + own, "the engine goes on"


def test_push_does_not_retry_a_missing_permission(
    docker: Engine, bad_proxy: BadProxy, registry: Registry, image: str
) -> None:
    waits: list[float] = []
    bad_proxy.faults.append(Fault(on="^(POST|PUT|PATCH)", code=403, message="denied: no", times=99))
    with pytest.raises(Unreachable) as refused:
        pushing(docker, waits).push(image, repository=f"{bad_proxy.address}/{registry.repository}", tag="code-1")
    assert (refused.value.problem_id, waits) == ("registry-forbidden", [])


def test_push_distinguishes_a_missing_login_from_a_refused_one(
    docker: Engine, bad_proxy: BadProxy, registry: Registry, image: str
) -> None:
    bad_proxy.login = f"{GOOGLE_USER}:{secrets.token_hex()}"
    repository = f"{bad_proxy.address}/{registry.repository}"
    with pytest.raises(Unreachable) as missing:
        pusher(docker).push(image, repository=repository, tag="code-1")
    assert missing.value.problem_id == "registry-login-missing"
    with pytest.raises(Unreachable) as refused:
        google(docker, secrets.token_hex(), clock=fast_clock).push(image, repository=repository, tag="code-1")
    assert refused.value.problem_id == "registry-login-refused"


def google(docker: Engine, token: str, **more: Any) -> Pusher:
    """Return a pusher for a registry of Google's, with this token."""

    def credential(host: str) -> Credential:
        return Credential(host=host, user=GOOGLE_USER, secret=token)

    class Holding(RegistryLogin):
        @property
        def credential(self) -> Credential:  # type: ignore[override]
            return credential(self.host)

    more = {"registries": Registries(env=docker.env, login=Holding), **more}
    return replace(pusher(docker), credential=credential, google=lambda _: True, **more)


def test_push_logs_in_with_the_token_and_leaves_it_in_no_file(
    docker: Engine, bad_proxy: BadProxy, registry: Registry, image: str
) -> None:
    token = secrets.token_hex()
    bad_proxy.login = f"{GOOGLE_USER}:{token}"
    own = Path(docker.env["DOCKER_CONFIG"])
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}
    made = google(docker, token, registries=Reading(registries=Registries(env={}), proxy=bad_proxy))
    pushed = made.push(image, repository=f"{bad_proxy.address}/{registry.repository}", tag="code-1")
    assert pushed == registry.digest("code-1")
    assert {path: path.read_bytes() for path in own.rglob("*") if path.is_file()} == before
    assert any(seen.login == bad_proxy.login for seen in bad_proxy.seen)


class Reading:
    """Reads past the proxy's login, which the user's own configuration does not have."""

    def __init__(self, *, registries: Registries, proxy: BadProxy) -> None:
        self._registries, self._proxy = registries, proxy

    def _past(self, ref: str) -> str:
        return ref.replace(self._proxy.address, self._proxy.upstream)

    def manifest(self, ref: str) -> Manifest | None:
        return self._registries.manifest(self._past(ref))

    def manifest_digest(self, ref: str) -> str | None:
        return self._registries.manifest_digest(self._past(ref))

    def pause_asked(self, host: str) -> None:
        return None


def test_two_concurrent_pushes_return_the_same_digest(docker: Engine, registry: Registry, image: str) -> None:
    repository = f"{registry.address}/{registry.repository}"

    def push(_: int) -> str:
        return pusher(docker_client.connect_engine(docker.env)).push(image, repository=repository, tag="code-1")

    with ThreadPoolExecutor(2) as pool:
        assert set(pool.map(push, range(2))) == {registry.digest("code-1")}


def test_push_returns_its_own_digest_if_another_push_moved_the_tag(
    docker: Engine, registry: Registry, image: str, tmp_path: Path
) -> None:
    repository = f"{registry.address}/{registry.repository}"
    other = built(docker, tmp_path / "other", f"{registry.repository}-other")

    class Meanwhile(Registries):
        def manifest(self, ref: str) -> Manifest | None:
            if ref.endswith(":code-1"):
                docker.tag(other, repository=repository, tag="code-1")
                docker.api.push(repository, "code-1", auth_config={})
            return super().manifest(ref)

    pushed = replace(pusher(docker), registries=Meanwhile(env=docker.env)).push(
        image, repository=repository, tag="code-1"
    )
    assert pushed != registry.digest("code-1")
    assert Registries(env=docker.env).manifest_digest(f"{repository}@{pushed}") == pushed


@pytest.mark.parametrize("lie", ["header", "missing"])
def test_push_refuses_a_digest_that_the_registry_contradicts(
    docker: Engine, registry: Registry, image: str, lie: str
) -> None:
    class Lying(Registries):
        def manifest(self, ref: str) -> Manifest | None:
            found = super().manifest(ref)
            if lie == "missing":
                return None
            return found and replace(found, digest="sha256:" + hashlib.sha256(b"other").hexdigest())

    repository = f"{registry.address}/{registry.repository}"
    lying = replace(pusher(docker), registries=Lying(env=docker.env))
    with pytest.raises(Unknown) as unknown:
        lying.push(image, repository=repository, tag="code-1")
    assert (unknown.value.problem_id, unknown.value.exit_status) == ("push-unconfirmed", 8)


INTERRUPTED = """
import os, sys
from xsft.effects.images.docker_client import connect_engine
from xsft.effects.images.docker_push import pusher
image, repository = sys.argv[1:]
made = pusher(connect_engine(dict(os.environ)))
made.push(image, repository=repository, tag="code-1", on_event=lambda event: print(event, flush=True))
"""


def test_an_interrupted_push_can_be_repeated(
    docker: Engine, bad_proxy: BadProxy, registry: Registry, tmp_path: Path
) -> None:
    made = step(tmp_path / "large", {"data": noise(registry.repository, 24_000_000)})
    build(made, engine=docker, client=find_client(docker.env), names=("xsft-test/large:made",))
    repository = f"{bad_proxy.address}/{registry.repository}"
    bad_proxy.faults.append(Fault(on=MANIFEST, code=500, times=999))  # it ends by the signal alone
    child = subprocess.Popen(
        (sys.executable, "-c", INTERRUPTED, "xsft-test/large:made", repository),
        env=dict(docker.env), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    with child:
        assert any("moving" in line for line in child.stdout or ())
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=300)
    assert child.returncode == -signal.SIGINT
    assert registry.digest("code-1") is None
    bad_proxy.faults.clear()
    pushed = pusher(docker).push("xsft-test/large:made", repository=repository, tag="code-1")
    assert pushed == registry.digest("code-1")


def test_push_to_a_registry_that_is_not_running_exits_5(docker: Engine, image: str) -> None:
    waits: list[float] = []
    with pytest.raises(XsftError) as failed:
        pushing(docker, waits).push(image, repository="127.0.0.1:1/team/image", tag="code-1")
    assert (failed.value.exit_status, waits) == (5, [1.0, 2.0])

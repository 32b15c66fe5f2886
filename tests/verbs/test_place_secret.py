"""`xsft secret create`: the value reaches the cluster and nothing else, and nothing is overwritten."""

from __future__ import annotations

import base64
import io
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.documents import read_document
from tests.fakes.clusters import ClusterApi
from tests.fakes.standin import StandinWorld
from tests.faults.world import World
from xsft.verbs.cli import main

pytestmark = pytest.mark.loopback

Said = tuple[int, str, str]
Run = Callable[..., Said]


@pytest.fixture
def token() -> str:
    """Made here, so that no file holds one."""
    return "hf_" + secrets.token_hex(20)


@pytest.fixture
def xsft(
    cluster_api: ClusterApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs the verb in an empty folder; exit status and both streams."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("KUBECONFIG", str(cluster_api.kubeconfig))
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path / "cache"))

    def run(*arguments: str, stdin: str = "") -> Said:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        status = main(("secret", *arguments))
        return (status, *capsys.readouterr())

    return run


def to(api: ClusterApi) -> tuple[str, ...]:
    """The test's own namespace, where that is not the one that is taken by default."""
    named = () if api.namespace == "default" else ("--namespace", api.namespace)
    return ("--context", api.context, *named)


def elsewhere(api: ClusterApi) -> World:
    """Not the namespace that is taken by default."""
    return StandinWorld(api.standin, "kueue-system") if api.namespace == "default" else api.world


def stored(api: ClusterApi) -> dict[str, dict[str, Any]]:
    return api.world.secrets()


def everywhere(folder: Path) -> str:
    """The text of every file below."""
    return "".join(p.read_text(errors="replace") for p in folder.rglob("*") if p.is_file())


@pytest.mark.early
def test_secret_create_reads_standard_input(cluster_api: ClusterApi, xsft: Run, token: str, tmp_path: Path) -> None:
    status, out, err = xsft("create", "hf-token", *to(cluster_api), stdin=f"{token}\n")
    assert (status, err) == (0, "")
    assert f"created the Secret hf-token, key token, in namespace {cluster_api.namespace}" in out
    secret = stored(cluster_api)["hf-token"]
    assert secret["data"] == {"token": base64.b64encode(token.encode()).decode()}
    assert secret["type"] == "Opaque"
    assert token not in out
    assert token not in everywhere(tmp_path)


def test_secret_create_reads_a_file_and_finds_the_cluster_by_place(
    cluster_api: ClusterApi, xsft: Run, token: str, tmp_path: Path
) -> None:
    (tmp_path / "here" / "pyproject.toml").touch()
    (tmp_path / "here" / "places.yaml").write_text(
        f"main: {{context: {cluster_api.context}, namespace: {elsewhere(cluster_api).namespace}}}\n"
    )
    (tmp_path / "value").write_text(token)
    status, out, _ = xsft(
        "create", "a", "--key", "k", "--from-file", str(tmp_path / "value"), "--place", "main", "--json"
    )
    document = read_document("secret", out)
    assert (status, document["namespace"], document["key"]) == (0, elsewhere(cluster_api).namespace, "k")
    assert "a" in elsewhere(cluster_api).secrets()
    (tmp_path / "value").unlink()
    assert token not in out + everywhere(tmp_path)


def test_an_existing_secret_is_unchanged(cluster_api: ClusterApi, xsft: Run, token: str) -> None:
    arguments = ("create", "hf", *to(cluster_api))
    xsft(*arguments, stdin="first")
    status, _, err = xsft(*arguments, stdin=token)
    assert status == 4
    assert "[secret-exists]" in err
    assert token not in err
    assert stored(cluster_api)["hf"]["data"] == {"token": base64.b64encode(b"first").decode()}
    assert {one.method for one in cluster_api.server.seen} == {"GET", "POST"}


@pytest.mark.standin_only("no-request")
@pytest.mark.parametrize(
    "place",
    [
        lambda t: ("create", "hf", t),
        lambda t: ("create", t),
        lambda t: (t, "hf"),
        lambda t: ("create", "hf", "--key", t),
        lambda t: ("create", "hf", f"--from-literal=token={t}"),
        lambda t: ("create", "hf", "--from-literal", f"token={t}"),
        lambda t: ("create", "hf", "--token", t),
        lambda t: ("create", "hf", "--value", t),
        lambda t: ("create", "hf", "--nosuch", t),
        lambda t: ("create", "hf", f"--nosuch={t}"),
        lambda t: ("create", "hf", "--from-file", t),
        lambda t: ("create", "hf", "--namespace", t),
        lambda t: ("create", "hf", "--context", t),
        lambda t: ("create", "hf", "--place", t),
    ],
    ids=[
        "after name",
        "in place of name",
        "in place of verb",
        "key",
        "literal after =",
        "literal",
        "token option",
        "value option",
        "unknown option",
        "unknown option after =",
        "file",
        "namespace",
        "context",
        "place",
    ],
)
@pytest.mark.parametrize("extra", [(), ("--json",)], ids=["text", "json"])
def test_a_token_on_the_command_line_is_refused_and_not_echoed(
    cluster_api: ClusterApi, xsft: Run, token: str, place: Callable[[str], tuple[str, ...]], extra: tuple[str, ...]
) -> None:
    status, out, err = xsft(*place(token), *extra, stdin="x")
    assert status == 2
    assert token not in out + err
    assert cluster_api.server.seen == []


@pytest.mark.standin_only("no-request")
@pytest.mark.parametrize(
    "place",
    [
        lambda v: ("create", "hf", v),
        lambda v: ("create", "hf", f"--from-literal=k={v}"),
        lambda v: ("create", f"H{v}"),
        lambda v: (v, "hf"),
        lambda v: ("create", "hf", "--json", v),
        lambda v: ("create", "hf", "--json", v, "--nosuch", f"--x={v}"),
    ],
    ids=["after name", "literal", "in place of name", "in place of verb", "after --json", "unknown option"],
)
def test_a_value_in_place_of_a_name_is_refused_and_not_echoed(
    cluster_api: ClusterApi, xsft: Run, place: Callable[[str], tuple[str, ...]]
) -> None:
    value = f"A{secrets.token_hex(12)}"
    for arguments in (place(value), (*place(value), *to(cluster_api))):
        status, out, err = xsft(*arguments, stdin="x")
        assert status == 2
        assert value not in out + err


@pytest.mark.standin_only("no-request")
@pytest.mark.parametrize("stdin", ["", "\n", "  \n"])
def test_an_empty_value_is_refused(cluster_api: ClusterApi, xsft: Run, stdin: str) -> None:
    status, _, err = xsft("create", "hf", *to(cluster_api), stdin=stdin)
    assert status == 2
    assert "is empty" in err
    assert stored(cluster_api) == {}


@pytest.mark.standin_only("no-request")
def test_an_unreadable_value_file_is_refused(cluster_api: ClusterApi, xsft: Run, tmp_path: Path) -> None:
    for name in ("nosuch", "."):
        status, _, err = xsft("create", "hf", *to(cluster_api), "--from-file", str(tmp_path / name))
        assert status == 2
        assert "--from-file" in err


@pytest.mark.standin_only("no-request")
def test_without_a_cluster_the_known_places_are_named(xsft: Run) -> None:
    status, _, err = xsft("create", "hf", stdin="x")
    assert status == 2
    assert "Known places: none" in err


@pytest.mark.parametrize("code", [400, 401, 403, 422, 500])
def test_no_refusal_of_the_cluster_shows_the_value(cluster_api: ClusterApi, xsft: Run, code: int) -> None:
    value = secrets.token_urlsafe(24)
    encoded = base64.b64encode(value.encode()).decode()
    quoting = f'cannot create resource "secrets": {value} {encoded}'
    cluster_api.server.fail("POST", code=code, message=quoting, times=9, retry_after="0")
    status, out, err = xsft("create", "hf", *to(cluster_api), stdin=value)
    assert status in (2, 5)
    assert value not in out + err
    assert encoded not in out + err
    assert "xsft plan" not in err  # a Secret is no workload


@pytest.mark.standin_only("no-request")
def test_secret_create_refuses_a_terminal_as_standard_input(cluster_api: ClusterApi) -> None:
    """A process on a terminal of its own."""
    import pty

    ours, theirs = pty.openpty()
    env = {**os.environ, "KUBECONFIG": str(cluster_api.kubeconfig)}
    argv = (sys.executable, "-m", "xsft", "secret", "create", "hf", *to(cluster_api))
    done = subprocess.run(argv, stdin=theirs, capture_output=True, text=True, env=env, timeout=300, check=False)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 2
    assert "terminal" in done.stderr

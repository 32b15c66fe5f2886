"""A login reaches Docker by a configuration that is in no folder; the user's own is never written."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from xsft.effects.images.docker_login import (
    GOOGLE_USER,
    Credential,
    credential_for,
    own_credential,
    private_config,
)

HOST = "registry.example.com"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """The home of a user with logins of his own."""
    own = tmp_path / ".docker"
    (own / "cli-plugins").mkdir(parents=True)
    content = {
        "auths": {HOST: {"auth": base64.b64encode(b"me:" + secrets.token_hex(8).encode()).decode()}},
        "credsStore": "keychain",
        "experimental": "enabled",
    }
    (own / "config.json").write_text(json.dumps(content))
    return tmp_path


def env(notes: Path, **more: str) -> dict[str, str]:
    return {"PATH": f"{notes}:{os.environ['PATH']}", "HOME": str(notes), **more}


def credential() -> Credential:
    return Credential(host=HOST, user=GOOGLE_USER, secret=secrets.token_urlsafe(40))


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def read(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return found


def test_private_config_keeps_a_login_out_of_every_file_on_disk(notes: Path) -> None:
    own, login = snapshot(notes / ".docker"), credential()
    with private_config(env=env(notes), logins=(login,)) as folder:
        assert not folder.is_relative_to(notes)
        given = base64.b64encode(f"{GOOGLE_USER}:{login.secret}".encode()).decode()
        assert read(folder)["auths"][HOST] == {"auth": given}
        assert [path.name for path in folder.iterdir() if not path.is_symlink()] == []
        assert Path(os.readlink(folder / "config.json")).parent == Path(f"/proc/{os.getpid()}/fd")
    assert not folder.exists()
    assert snapshot(notes / ".docker") == own


def test_private_config_disables_the_credential_helper_of_a_given_host(notes: Path) -> None:
    with private_config(env=env(notes), logins=(credential(),)) as folder:
        assert read(folder)["credHelpers"] == {HOST: ""}
        assert read(folder)["credsStore"] == "keychain"


def test_repr_of_a_credential_hides_its_secret() -> None:
    login = credential()
    assert login.secret not in repr(login)


def test_private_config_copies_only_what_a_pull_needs(notes: Path) -> None:
    with private_config(env=env(notes)) as folder:
        copied = read(folder)
        assert set(copied) == {"auths", "credHelpers", "credsStore"}
        assert (folder / "cli-plugins").resolve() == notes / ".docker" / "cli-plugins"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not folder.exists()
    assert (notes / ".docker" / "cli-plugins").is_dir()
    with private_config(env=env(notes), own=False) as folder:
        assert read(folder) == {"auths": {}, "credHelpers": {}}


def test_a_broken_docker_config_is_read_as_empty(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[broken")
    with private_config(env={"DOCKER_CONFIG": str(tmp_path)}) as folder:
        assert read(folder) == {"auths": {}, "credHelpers": {}}


KILLED = """
import os, sys, time
from xsft.effects.images.docker_login import Credential, private_config
login = Credential(host="h.example.com", user="u", secret=os.environ["S"])
with private_config(env=dict(os.environ), logins=(login,)) as folder:
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_private_config_is_removed_after_a_signal(notes: Path, sent: signal.Signals) -> None:
    own = snapshot(notes / ".docker")
    child = subprocess.Popen(
        (sys.executable, "-c", KILLED), env=env(notes, S=secrets.token_hex()), stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    with child:
        assert child.stdout is not None
        folder = Path(child.stdout.readline().strip())
        assert (folder / "config.json").exists()
        child.send_signal(sent)
        child.wait(timeout=20)
    assert child.returncode != 0
    assert not folder.exists()
    assert snapshot(notes / ".docker") == own


def test_no_file_holds_a_login_after_sigkill(notes: Path) -> None:
    child = subprocess.Popen(
        (sys.executable, "-c", KILLED), env=env(notes, S=secrets.token_hex()), stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None
        folder = Path(child.stdout.readline().strip())
        assert set(read(folder)["auths"]) == {HOST, "h.example.com"}
        child.kill()
    assert folder.is_dir()
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    folder.joinpath("config.json").unlink()
    folder.joinpath("cli-plugins").unlink()
    folder.rmdir()


def test_an_ignored_signal_stays_ignored(notes: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with private_config(env=env(notes)):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_only_google_registries_get_the_google_token(notes: Path) -> None:
    token, asked = secrets.token_hex(), []

    def fetch(_env: object) -> str:
        asked.append(1)
        return token

    found = credential_for("us-docker.pkg.dev", env=env(notes), token=fetch)
    assert found == Credential(host="us-docker.pkg.dev", user=GOOGLE_USER, secret=token)
    for host in (HOST, "pkg.dev", "us-docker.pkg.dev.example.com", "xgcr.io", "localhost:5000"):
        other = credential_for(host, env=env(notes), token=fetch)
        assert other is None or other.secret != token
    assert len(asked) == 1


def test_dockers_credential_helper_is_used_without_a_google_login(notes: Path) -> None:
    helper = notes / "docker-credential-gcloud"
    helper.write_text('#!/bin/sh\nread host; echo "{\\"Username\\": \\"_token\\", \\"Secret\\": \\"for $host\\"}"\n')
    helper.chmod(0o755)
    (notes / ".docker" / "config.json").write_text(json.dumps({"credHelpers": {"us-docker.pkg.dev": "gcloud"}}))
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{notes}:{before}"  # docker-py looks for helpers on the process's own
    try:
        found = credential_for("us-docker.pkg.dev", env=env(notes), token=lambda _: None)
    finally:
        os.environ["PATH"] = before
    assert found is not None
    assert (found.user, found.secret) == ("_token", "for us-docker.pkg.dev")


def test_own_credential_returns_the_users_login_for_a_host(notes: Path) -> None:
    (notes / ".docker" / "config.json").write_text(
        json.dumps({"auths": {HOST: {"auth": base64.b64encode(b"me:mine").decode()}, "bad": {"auth": "%"}}})
    )
    found = own_credential(HOST, env=env(notes))
    assert found is not None
    assert (found.user, found.secret) == ("me", "mine")
    assert own_credential("other.example.com", env=env(notes)) is None


@pytest.mark.parametrize("kept_by", ["file", "helper"])
def test_an_identity_token_is_not_used_as_a_password(
    notes: Path, kept_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"auths": {HOST: {"auth": "", "identitytoken": "for a token service"}}}
    if kept_by == "helper":
        helper = notes / "docker-credential-keeper"
        helper.write_text('#!/bin/sh\necho \'{"Username": "<token>", "Secret": "for a token service"}\'\n')
        helper.chmod(0o755)
        monkeypatch.setenv("PATH", f"{notes}:{os.environ['PATH']}")  # docker-py looks for helpers on the process's own
        config = {"credHelpers": {HOST: "keeper"}}
    (notes / ".docker" / "config.json").write_text(json.dumps(config))
    found = own_credential(HOST, env=env(notes))
    assert found is not None
    assert (found.user, found.secret, found.refresh) == ("", "for a token service", True)


def test_a_credential_helper_that_is_not_installed_is_no_error(notes: Path) -> None:
    assert own_credential(HOST, env=env(notes)) is None

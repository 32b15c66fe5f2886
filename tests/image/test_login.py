"""The user's login to a registry is read from Docker's configuration and from Google, and never shown."""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path

import pytest

from xsft.image.login import GOOGLE_USER, Login, docker_login, login_for

HOST = "registry.example.com"


def env(home: Path) -> dict[str, str]:
    return {"HOME": str(home)}


def configure(home: Path, **config: object) -> None:
    (home / ".docker").mkdir(exist_ok=True)
    (home / ".docker" / "config.json").write_text(json.dumps(config))


def install_helper(home: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """docker-py looks for helpers on the process's own PATH."""
    helper = home / f"docker-credential-{name}"
    helper.write_text(f"#!/bin/sh\n{script}\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(home), prepend=":")


def encoded(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def test_only_google_registries_get_the_google_token(tmp_path: Path) -> None:
    token, logins = secrets.token_hex(), []

    def fetch(_env: object) -> str:
        logins.append(1)
        return token

    login = login_for("us-docker.pkg.dev", env=env(tmp_path), token=fetch)
    assert login == Login(user=GOOGLE_USER, secret=token)
    assert login.bearer == {"Authorization": f"Bearer {token}"}
    assert token not in repr(login)
    for host in (HOST, "pkg.dev", "us-docker.pkg.dev.example.com", "xgcr.io", "localhost:5000"):
        assert login_for(host, env=env(tmp_path), token=fetch) is None
    assert len(logins) == 1


def test_a_login_in_dockers_configuration_is_enough_for_google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `gcloud auth configure-docker` leaves it."""
    script = 'read host; echo "{\\"Username\\": \\"_token\\", \\"Secret\\": \\"for $host\\"}"'
    install_helper(tmp_path, "gcloud", script, monkeypatch)
    configure(tmp_path, credHelpers={"us-docker.pkg.dev": "gcloud"})
    login = login_for("us-docker.pkg.dev", env=env(tmp_path), token=lambda _: None)
    assert login == Login(user="_token", secret="for us-docker.pkg.dev")
    assert (login.bearer, login.for_docker) == ({}, {"username": "_token", "password": login.secret})


def test_the_users_login_is_that_of_the_host_and_a_broken_configuration_has_none(tmp_path: Path) -> None:
    hub = "https://index.docker.io/v1/"
    configure(
        tmp_path,
        auths={HOST: {"auth": encoded("me", "mine")}, hub: {"auth": encoded("me", "hub")}},
    )
    assert docker_login(HOST, env=env(tmp_path)) == Login(user="me", secret="mine")
    assert docker_login("docker.io", env=env(tmp_path)) == Login(user="me", secret="hub")
    assert docker_login("other.example.com", env=env(tmp_path)) is None
    for broken in ("[broken", '{"auths": {"other.example.com": {"auth": "%"}}}', '{"auths": 5}', '{"auths": {"a": 1}}'):
        (tmp_path / ".docker" / "config.json").write_text(broken)
        assert docker_login(HOST, env=env(tmp_path)) is None


@pytest.mark.parametrize("kept_by", ["file", "helper"])
def test_an_identity_token_is_not_used_as_a_password(
    tmp_path: Path, kept_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tmp_path, auths={HOST: {"auth": "", "identitytoken": "for a token service"}})
    if kept_by == "helper":
        script = 'echo \'{"Username": "<token>", "Secret": "for a token service"}\''
        install_helper(tmp_path, "keeper", script, monkeypatch)
        configure(tmp_path, credHelpers={HOST: "keeper"})
    login = docker_login(HOST, env=env(tmp_path))
    assert login == Login(user="", secret="for a token service", is_identity_token=True)
    assert (login.basic, login.for_docker) == ({}, {"identitytoken": "for a token service"})


def test_a_credential_helper_that_is_not_installed_is_no_error(tmp_path: Path) -> None:
    configure(tmp_path, credsStore="keychain")
    assert docker_login(HOST, env=env(tmp_path)) is None

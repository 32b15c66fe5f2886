"""An image is pulled with the login of this machine, or anonymously without one."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from xsft.base.errors import Unreachable, XsftError
from xsft.effects.images.docker_client import Engine
from xsft.effects.images.docker_login import own_credential
from xsft.effects.images.docker_push import pusher
from xsft.effects.images.engine import RealDocker
from xsft.effects.images.registry_client import Registries

PUBLIC = "us-docker.pkg.dev/somebody/public/image:1"
SEEN = {"Id": "sha256:1", "RepoTags": [], "Config": {}}
UNAUTHENTICATED = "denied: Unauthenticated request. Unauthenticated requests do not have permission"


@dataclass
class Api:
    """docker.APIClient, as far as a pull asks it."""

    says: str = ""
    logins: list[Mapping[str, str]] = field(default_factory=list)

    def pull(self, _repository: str, *, auth_config: Mapping[str, str], **_: Any) -> Iterator[dict[str, Any]]:
        self.logins.append(auth_config)
        yield {"error": self.says} if self.says else {"status": "Pull complete", "id": "layer"}

    def inspect_image(self, _ref: str) -> dict[str, Any]:
        return SEEN


def engine(home: Path, api: Api, *, auths: Mapping[str, str] | None = None) -> Engine:
    """`auths`: host -> password of the user `me`, as `docker login` leaves it."""
    (home / ".docker").mkdir()
    kept = {host: {"auth": base64.b64encode(f"me:{word}".encode()).decode()} for host, word in (auths or {}).items()}
    (home / ".docker" / "config.json").write_text(json.dumps({"auths": kept}))
    env = {"HOME": str(home), "CLOUDSDK_CONFIG": str(home / "none"), "NO_GCE_CHECK": "true", "PATH": str(home)}
    return Engine(host="unix:///none", api=api, env=env)


@pytest.mark.parametrize("ref", [PUBLIC, "docker.io/library/python:3.12-slim", "127.0.0.1:5000/team/image:1"])
def test_a_public_image_needs_no_login(tmp_path: Path, ref: str) -> None:
    api = Api()
    assert pusher(engine(tmp_path, api)).pull(ref).id == "sha256:1"
    assert api.logins == [{}]


@pytest.mark.parametrize("says", [UNAUTHENTICATED, "unauthorized: authentication required"])
def test_a_missing_login_names_the_login_command(tmp_path: Path, says: str) -> None:
    with pytest.raises(Unreachable) as missing:
        pusher(engine(tmp_path, Api(says))).pull(PUBLIC)
    assert missing.value.problem_id == "registry-login-missing"
    assert "gcloud auth application-default login" in missing.value.fix


def test_a_login_without_the_needed_role_is_registry_forbidden(tmp_path: Path) -> None:
    made = engine(tmp_path, Api("denied: no"), auths={"registry.example.com": "mine"})
    with pytest.raises(XsftError) as refused:
        pusher(made).pull("registry.example.com/team/image:1")
    assert refused.value.problem_id == "registry-forbidden"


@pytest.mark.parametrize(
    ("kept", "ref"),
    [
        ("registry.example.com", "registry.example.com/team/image:1"),
        ("https://index.docker.io/v1/", "team/image:1"),
        ("us-docker.pkg.dev", PUBLIC),
    ],
)
def test_the_users_own_login_is_used_for_its_host(tmp_path: Path, kept: str, ref: str) -> None:
    word = secrets.token_hex()
    api = Api()
    made = engine(tmp_path, api, auths={kept: word, "other.example.com": "other"})
    pusher(made).pull(ref)
    assert [(login["username"], login["password"]) for login in api.logins] == [("me", word)]


def test_a_build_pulls_its_dependencies_with_the_same_logins(tmp_path: Path) -> None:
    api = Api()
    made = engine(tmp_path, api, auths={"https://index.docker.io/v1/": "mine"})
    docker = RealDocker(engine=made, registries=Registries(env=made.env), env=made.env)
    docker.pull(PUBLIC, on_event=lambda _: None)
    docker.pull("team/image:1", on_event=lambda _: None)
    assert [login.get("password") for login in api.logins] == [None, "mine"]


def test_own_credential_finds_the_login_of_docker_hub_by_docker_io(tmp_path: Path) -> None:
    made = engine(tmp_path, Api(), auths={"https://index.docker.io/v1/": "mine"})
    found = own_credential("docker.io", env=made.env)
    assert found is not None
    assert (found.host, found.secret) == ("docker.io", "mine")

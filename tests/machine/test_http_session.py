"""No request of xsft sends a login from ~/.netrc, and none fails because of one."""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth.exceptions import TransportError
from google.oauth2.credentials import Credentials

from tests.fakes.gcs import Bucket
from tests.fakes.gcs import serving as serving_bucket
from tests.fakes.loopback import serving_http
from xsft.image.engine import connect_engine
from xsft.image.lock_file import look_at_image
from xsft.image.login import Login, create_repository
from xsft.image.registry import RegistryClient
from xsft.machine.google_login import google_credentials, google_token
from xsft.machine.http_session import Session
from xsft.machine.storage import gcs_storage

CONFIG = json.dumps({"config": {"Labels": {"a": "1"}}}).encode()
CONFIG_DIGEST = f"sha256:{hashlib.sha256(CONFIG).hexdigest()}"
MANIFEST = json.dumps({"config": {"digest": CONFIG_DIGEST, "size": len(CONFIG)}, "layers": []}).encode()


@dataclass
class Server:
    """Answers everything, and remembers who asked as whom."""

    address: str = ""
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    """By path without query."""
    delay_s: float = 0
    wants: str = ""
    """An Authorization header without which the answer is 401 and a challenge for Basic."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Path (as a proxy gets it: the whole URL) and Authorization header."""

    @property
    def logins(self) -> set[str]:
        return {login for _, login in self.asked}


@contextmanager
def serving() -> Iterator[Server]:
    new_server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            login = self.headers.get("Authorization", "")
            new_server.asked.append((self.path, login))
            time.sleep(new_server.delay_s)
            status, headers, body = new_server.answers.get(self.path.partition("?")[0], (200, {}, b"{}"))
            if new_server.wants and login != new_server.wants:
                status, headers, body = 401, {"WWW-Authenticate": 'Basic realm="tests"'}, b"{}"
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

    with serving_http(Handler) as url:
        new_server.address = url.removeprefix("http://")
        yield new_server


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as servers:
        yield servers


@pytest.fixture(autouse=True)
def netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The Authorization header that requests would make of it."""
    password = secrets.token_hex()
    (tmp_path / ".netrc").write_text(f"default login somebody password {password}\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    return "Basic " + base64.b64encode(f"somebody:{password}".encode()).decode()


@pytest.fixture
def repository(server: Server, tmp_path: Path) -> RegistryClient:
    return RegistryClient(f"{server.address}/team/image", env={"HOME": str(tmp_path)})


def test_requests_without_a_session_of_xsft_sends_the_netrc_login(server: Server, netrc: str) -> None:
    requests.get(f"http://{server.address}/", timeout=9)
    assert server.logins == {netrc}


def test_a_registry_and_its_redirect_target_receive_no_credentials(server: Server, repository: RegistryClient) -> None:
    with serving() as storage:
        storage.answers["/blob"] = (200, {}, CONFIG)
        server.answers["/v2/team/image/manifests/v1"] = (200, {}, MANIFEST)
        blob = {"Location": f"http://{storage.address}/blob"}
        server.answers[f"/v2/team/image/blobs/{CONFIG_DIGEST}"] = (307, blob, b"")
        assert repository.image("v1").configuration == CONFIG
    assert (server.logins, storage.logins) == ({""}, {""})
    assert [path for path, _ in storage.asked] == ["/blob"]


def test_a_token_service_gets_the_users_own_login_or_none(server: Server, tmp_path: Path) -> None:
    challenge = {"WWW-Authenticate": f'Bearer realm="http://{server.address}/token",service="s"'}
    server.answers["/v2/team/image/manifests/v1"] = (401, challenge, b"")
    server.answers["/token"] = (200, {}, b'{"token": "anonymous"}')
    assert look_at_image(f"{server.address}/team/image:v1", env={"HOME": str(tmp_path)}).status == "unread"
    assert [(path.partition("?")[0], login) for path, login in server.asked] == [
        ("/v2/team/image/manifests/v1", ""),
        ("/token", ""),
        ("/v2/team/image/manifests/v1", "Bearer anonymous"),
    ]


def test_look_at_image_uses_the_docker_login_that_a_registry_requires(server: Server, tmp_path: Path) -> None:
    own = base64.b64encode(f"me:{secrets.token_hex()}".encode()).decode()
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"auths": {server.address: {"auth": own}}}))
    server.wants = f"Basic {own}"
    server.answers["/v2/team/none/manifests/v1"] = (404, {}, b"{}")
    env = {"HOME": str(tmp_path)}
    assert look_at_image(f"{server.address}/team/image:v1", env=env).status == "there"
    assert look_at_image(f"{server.address}/team/none:v1", env=env).status == "missing"
    assert server.logins == {"", server.wants}


def test_a_creation_in_artifact_registry_is_asked_and_polled_with_the_google_login_only(server: Server) -> None:
    parent = "projects/my-project/locations/us"
    server.answers[f"/v1/{parent}/repositories"] = (200, {}, json.dumps({"name": f"{parent}/operations/1"}).encode())
    server.answers[f"/v1/{parent}/operations/1"] = (200, {}, b'{"done": true}')
    create_repository(
        "us-docker.pkg.dev/my-project/xsft",
        env={},
        say=print,
        api=f"http://{server.address}/v1",
        find_login=lambda _host, env: Login(user="oauth2accesstoken", secret="of-google"),
        sleep=lambda _: None,
    )
    assert [login for _, login in server.asked] == ["Bearer of-google"] * 2


def test_a_google_login_is_renewed_with_its_own_key_only(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers["/token"] = (200, {}, b'{"access_token": "fresh", "expires_in": 3600}')
    key = tmp_path / "key.json"
    key.write_text(json.dumps(service_account(f"http://{server.address}/token")))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    assert google_token(google_credentials()) == "fresh"
    assert server.asked == [("/token", "")]


def service_account(token_uri: str) -> dict[str, str]:
    private_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account",
        "client_email": "tests@my-project.iam.gserviceaccount.com",
        "private_key": private.decode(),
        "token_uri": token_uri,
    }


def test_a_bucket_receives_no_credentials(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{server.address}")
    server.answers["/storage/v1/b/my-bucket/o"] = (200, {}, b'{"items": [{"name": "a/b"}]}')
    storage = gcs_storage({"STORAGE_EMULATOR_HOST": f"http://{server.address}"})
    assert storage.names("gs://my-bucket/a") == ("b",)
    assert server.logins == {""}


def test_a_bucket_with_an_emulator_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_bucket(Bucket({"a/b": b"content"})) as bucket:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.url)
        storage = gcs_storage({"STORAGE_EMULATOR_HOST": bucket.url})
        assert storage.read("gs://my-bucket/a/b", limit=9) == b"content"


def test_an_engine_receives_no_credentials(server: Server, tmp_path: Path) -> None:
    server.answers["/version"] = (200, {}, b'{"ApiVersion": "1.41"}')
    server.answers["/v1.41/info"] = (200, {}, b'{"SecurityOptions": ["name=rootless"]}')
    engine = connect_engine({"DOCKER_HOST": f"tcp://{server.address}", "HOME": str(tmp_path)})
    assert engine.rootless
    assert server.logins == {""}


def test_loopback_is_requested_without_the_proxy_of_other_hosts(
    server: Server, repository: RegistryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as proxy:
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://{proxy.address}")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        assert repository.manifest("v1")
        assert (len(server.asked), proxy.asked) == (1, [])
        Session().get("http://registry.invalid/v2/", timeout=9)
        assert proxy.asked == [("http://registry.invalid/v2/", "")]


def test_the_session_trusts_the_certificates_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/own.pem")
    settings = Session().merge_environment_settings("https://registry.invalid/", {}, None, None, None)
    assert settings["verify"] == "/etc/own.pem"


SENDERS = {
    "requests": "http_session",
    "google.auth.transport": "google_login",
    "google.cloud.storage": "gcs",
    "docker": "engine",
    "urllib3": "",
    "httpx": "",
    "aiohttp": "",
    "http.client": "",
    "urllib.request": "",
}
"""What can ask over HTTP, and the one module that does: its logins are tested above."""
CLUSTER = {("urllib3", name) for name in ("http", "login")}
"""Clusters are asked by urllib3, which knows no ~/.netrc."""
IN_PODS = {
    ("google.cloud.storage", "container"),
    ("google.cloud.storage", "copy_weights"),
    ("google.cloud.storage", "work"),
}
"""Programs that run in a pod, alone and with the pod's own login."""
HARMLESS = (
    *(
        "requests.RequestException",
        "requests.Response",
        "requests.exceptions",
        "requests.adapters",
        "requests.utils",
        "urllib3.exceptions",
    ),
    *("urllib3.BaseHTTPResponse", "docker.auth", "docker.context", "docker.errors", "docker.types", "docker.utils"),
)


def test_each_http_library_is_imported_by_one_module_only() -> None:
    root = Path(__file__).parents[2] / "xsft"
    texts = {path: path.read_text(encoding="utf-8") for path in root.rglob("*.py")}
    words = tuple(sender.partition(".")[0] for sender in SENDERS)
    named = {path: text for path, text in texts.items() if any(word in text for word in words)}
    imports = {(sender, path.stem) for path, text in named.items() for sender in _imported(text)}
    assert imports - CLUSTER - IN_PODS == {(sender, module) for sender, module in SENDERS.items() if module}


def _imported(text: str) -> Iterator[str]:
    """Libraries of which a module takes more than errors and values."""
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if not name.startswith(HARMLESS):
                yield from (sender for sender in SENDERS if name == sender or name.startswith(f"{sender}."))


class Recorder(requests.adapters.BaseAdapter):
    """Answers every request, and remembers its login."""

    def __init__(self) -> None:
        super().__init__()
        self.logins: list[str | None] = []

    def send(self, request: requests.PreparedRequest, *_: object, **__: object) -> requests.Response:
        self.logins.append(request.headers.get("Authorization"))
        answer = requests.Response()
        answer.status_code = 200
        return answer

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("url", "login"),
    [("http://lab.example/", None), ("https://lab.example/", "Bearer t"), ("http://127.0.0.1:9/", "Bearer t")],
)
def test_a_login_is_sent_in_the_clear_only_to_this_machine(url: str, login: str | None) -> None:
    recorder, session = Recorder(), Session()
    session.mount(url, recorder)
    session.get(url, headers={"Authorization": "Bearer t"})
    assert recorder.logins == [login]


def test_a_refresh_token_is_not_posted_in_the_clear() -> None:
    login = Credentials(None, refresh_token="r", token_uri="http://lab.example/token", client_id="c", client_secret="s")
    with pytest.raises(TransportError, match=r"a login is not sent over http:// to lab\.example"):
        google_token(login)

"""Every login that google-auth gives reaches a bucket, each with a token server on loopback; what exists is never
overwritten, which is on the wire.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.fakes.gcs import Bucket
from tests.fakes.loopback import serving_http
from xsft.machine.gcs import client
from xsft.machine.objects import GcsObjects

pytestmark = pytest.mark.loopback
TOKEN = "from-the-server"


class TokenServer(BaseHTTPRequestHandler):
    """Google's token endpoints, and the metadata server of a machine or a pod."""

    def do_GET(self) -> None:
        if "universe" in self.path:
            self._answer(b"googleapis.com")
        elif "recursive" in self.path:
            self._answer(b'{"email": "pods@my-project.iam.gserviceaccount.com", "scopes": []}')
        else:
            self._answer(b"my-project")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(_token())

    def _answer(self, content: bytes) -> None:
        if self.path.partition("?")[0].endswith("/token"):
            content = _token()
        self.send_response(200)
        self.send_header("Content-Type", "application/json" if content.startswith(b"{") else "text/plain")
        self.send_header("Metadata-Flavor", "Google")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _token() -> bytes:
    return json.dumps(
        {
            "access_token": TOKEN,
            "accessToken": TOKEN,
            "token_type": "Bearer",
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "expires_in": 3600,
            "expireTime": "2099-01-01T00:00:00Z",
        }
    ).encode()


@pytest.fixture
def server() -> Iterator[str]:
    with serving_http(TokenServer) as url:
        yield url


def _key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def login(kind: str, url: str, folder: Path) -> dict[str, Any]:
    user = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}
    match kind:
        case "authorized_user":
            return {**user, "token_uri": f"{url}/token"}
        case "service_account":
            email = "a@my-project.iam.gserviceaccount.com"
            return {"type": kind, "client_email": email, "private_key": _key(), "token_uri": f"{url}/token"}
        case "external_account":
            (folder / "subject").write_text("s")
            return {
                "type": kind,
                "audience": "//iam.googleapis.com/locations/global/workforcePools/p/providers/q",
                "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
                "token_url": f"{url}/token",
                "credential_source": {"file": str(folder / "subject")},
            }
        case _:
            return {
                "type": kind,
                "service_account_impersonation_url": f"{url}/v1/projects/-/serviceAccounts/a@b:generateAccessToken",
                "source_credentials": {**user, "token_uri": f"{url}/token"},
            }


@pytest.mark.parametrize(
    "kind", ["authorized_user", "service_account", "external_account", "impersonated_service_account", "metadata"]
)
def test_every_login_creates_an_object_once(
    kind: str, server: str, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.url)  # only the address: this client has a login
    # google-auth reads no address for these from the login's file
    monkeypatch.setattr("google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT", f"{server}/token")
    monkeypatch.setattr("google.auth.iam._IAM_ENDPOINT", f"{server}/{{}}:generateAccessToken")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # nothing leaves this machine
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "false" if kind == "metadata" else "true")
    if kind == "metadata":
        for name in ("GCE_METADATA_HOST", "GCE_METADATA_IP"):
            monkeypatch.setenv(name, server.removeprefix("http://"))
    else:
        file = tmp_path / "login.json"
        file.write_text(json.dumps(login(kind, server, tmp_path)))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    google = client({}, emulated=False)
    objects = GcsObjects(google)
    assert [objects.create("gs://my-bucket/a", content) for content in (b"1", b"2")] == [True, False]
    assert bucket.objects["a"] == b"1"
    assert google._credentials.token == TOKEN
    creates = [line for line in bucket.asked if "/upload/" in line]
    assert len(creates) == 2
    assert all("ifGenerationMatch=0" in line for line in creates)

"""From a context to answers: logins, certificates, silence; what is said where one of them fails."""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.effects.test_cluster import CREATE, planned
from tests.fakes.clusters import ClusterApi, furnish
from tests.fakes.kubeapi import CONTEXT, KubeApi, serving
from tests.fakes.kubeobjects import Objects
from tests.replacing import replace
from xsft.effects.cluster import Cluster, connect_context
from xsft.effects.cluster_api import Patience
from xsft.effects.cluster_config import Here
from xsft.effects.cluster_create import Created
from xsft.errors import EnvironmentMissing, Unreachable, XsftError

pytestmark = pytest.mark.standin_only("tls")

QUICK = Patience(sleep=lambda _: None, connect_timeout_s=1, read_timeout_s=0.3)


def changed(file: Path, **parts: Any) -> Path:
    """The kubeconfig with its cluster and user entries updated."""
    config = yaml.safe_load(file.read_text())
    for kind, values in parts.items():
        config[f"{kind}s"][0][kind] = values
    file.write_text(yaml.safe_dump(config))
    return file


def connected(api: ClusterApi, **env: str) -> Cluster:
    here = Here(env={**api.here.env, **env}, home=api.here.home)
    return connect_context(api.context, here=here, patience=QUICK)


def plugin(folder: Path, name: str, body: str) -> Path:
    script = folder / name
    script.write_text(f"#!{sys.executable}\n{body}")
    script.chmod(0o700)
    return script


def test_a_login_plugin_is_run(cluster_api: ClusterApi, tmp_path: Path) -> None:
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    answer = {**credential, "status": {"token": cluster_api.standin.token}}
    script = plugin(tmp_path, "login", f"print({json.dumps(answer)!r})")
    section = {"apiVersion": credential["apiVersion"], "command": str(script)}
    changed(cluster_api.kubeconfig, user={"exec": section})
    assert connected(cluster_api).whoami() == "nightly"


def test_a_login_that_has_expired_is_renewed_by_openid_connect(
    cluster_api: ClusterApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its OAuth2 client, which is left out otherwise, is loaded then."""
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")  # the issuer is on loopback
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 1}).encode()).decode().rstrip("=")
    with issuing(id_token=cluster_api.standin.token) as issuer:
        config = {"client-id": "xsft", "client-secret": secrets.token_hex(), "refresh-token": secrets.token_hex()}
        told = {**config, "id-token": f"{claims}.{claims}.{claims}", "idp-issuer-url": issuer}
        changed(cluster_api.kubeconfig, user={"auth-provider": {"name": "oidc", "config": told}})
        assert connected(cluster_api).whoami() == "nightly"


@contextmanager
def issuing(*, id_token: str) -> Iterator[str]:
    class Issuer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.tell({"token_endpoint": f"http://{self.headers['Host']}/token"})

        def do_POST(self) -> None:
            assert b"grant_type=refresh_token" in self.rfile.read(int(self.headers["Content-Length"]))
            renewed = {"access_token": secrets.token_hex(), "refresh_token": secrets.token_hex()}
            self.tell({**renewed, "token_type": "Bearer", "id_token": id_token})

        def tell(self, answer: dict[str, str]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Issuer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("command", "hint", "fix"),
    [
        ("gke-gcloud-auth-plugin", None, "gcloud components install gke-gcloud-auth-plugin"),
        ("some-login", "brew install some-login", "brew install some-login"),
        ("some-login", None, "Install some-login"),
    ],
)
def test_a_missing_login_plugin_is_named(cluster_api: ClusterApi, command: str, hint: str | None, fix: str) -> None:
    section = {"apiVersion": "client.authentication.k8s.io/v1", "command": command, "installHint": hint}
    changed(cluster_api.kubeconfig, user={"exec": section})
    with pytest.raises(EnvironmentMissing, match=f"logs in with {command}") as caught:
        connected(cluster_api, PATH="/nowhere")
    assert caught.value.problem_id == "auth-plugin-missing"
    assert fix in caught.value.fix


def test_a_login_plugin_that_fails_is_quoted_and_nothing_else_is_printed(
    cluster_api: ClusterApi, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = plugin(tmp_path, "login", "import sys; sys.exit('please run: login again')")
    section = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)}
    changed(cluster_api.kubeconfig, user={"exec": section})
    with pytest.raises(Unreachable, match="please run: login again") as caught:
        connected(cluster_api)
    assert caught.value.problem_id == "login-expired"
    assert capfd.readouterr() == ("", "")


def test_a_login_that_has_expired(cluster_api: ClusterApi) -> None:
    changed(cluster_api.kubeconfig, user={"token": secrets.token_hex(8)})
    with pytest.raises(Unreachable, match="does not accept the login") as caught:
        connected(cluster_api).list_jobsets(namespace="default")
    assert caught.value.problem_id == "login-expired"
    assert f"kubectl --context {CONTEXT} auth whoami" in caught.value.fix


def test_the_users_kubeconfig_is_not_written(cluster_api: ClusterApi) -> None:
    before = cluster_api.kubeconfig.read_bytes()
    connected(cluster_api).list_jobsets(namespace="default")
    assert cluster_api.kubeconfig.read_bytes() == before


def test_no_proxy_for_loopback(cluster_api: ClusterApi, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert connected(cluster_api).whoami() == "nightly"


def test_nobody_there(cluster_api: ClusterApi) -> None:
    changed(cluster_api.kubeconfig, cluster={"server": "http://127.0.0.1:1"})
    with pytest.raises(Unreachable, match="cannot be reached: ") as caught:
        connected(cluster_api).list_jobsets(namespace="default")
    assert "0x" not in caught.value.message
    assert "kubectl --context" in caught.value.fix


def test_silence(cluster_api: ClusterApi) -> None:
    cluster_api.server.fail(".", action="hang-before", times=9)
    with pytest.raises(Unreachable, match="does not answer in time"):
        connected(cluster_api).list_jobsets(namespace="default")


def test_a_server_that_is_no_kubernetes(cluster_api: ClusterApi) -> None:
    cluster_api.standin.objects.kinds.clear()
    with pytest.raises(EnvironmentMissing):
        connected(cluster_api).list_jobsets(namespace="default")


def test_a_user_without_credentials_is_asked_to_log_in(cluster_api: ClusterApi) -> None:
    changed(cluster_api.kubeconfig, user={})
    with pytest.raises(Unreachable) as caught:
        connected(cluster_api).whoami()
    assert caught.value.problem_id == "login-expired"


def test_a_context_without_its_cluster(cluster_api: ClusterApi) -> None:
    config = yaml.safe_load(cluster_api.kubeconfig.read_text())
    cluster_api.kubeconfig.write_text(yaml.safe_dump({**config, "clusters": []}))
    with pytest.raises(EnvironmentMissing, match="cannot be used"):
        connected(cluster_api)


@pytest.fixture
def over_tls(tmp_path: Path) -> Iterator[tuple[KubeApi, Path]]:
    """The stand-in over TLS, and the certificate that it shows."""
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    names = ("-subj", "/CN=stand-in", "-addext", "subjectAltName=IP:127.0.0.1")
    argv = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", str(key))
    try:
        subprocess.run((*argv, "-out", str(certificate), *names), check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("NOT RUN: openssl makes the certificate, and it is not installed")
    with serving(KubeApi(objects=furnish(Objects())), certificate=(certificate, key)) as api:
        yield api, certificate


def reached(api: KubeApi, config: Path) -> Cluster:
    here = Here(env={**os.environ, "KUBECONFIG": str(config)}, home=config.parent)
    return connect_context(CONTEXT, here=here, patience=replace(QUICK, read_timeout_s=5))


def test_a_trusted_certificate(over_tls: tuple[KubeApi, Path], tmp_path: Path) -> None:
    api, certificate = over_tls
    assert reached(api, api.kubeconfig(tmp_path / "config", ca=certificate)).whoami() == "nightly"


def test_an_untrusted_certificate(over_tls: tuple[KubeApi, Path], tmp_path: Path) -> None:
    api, _ = over_tls
    with pytest.raises(Unreachable, match="TLS connection") as caught:
        reached(api, api.kubeconfig(tmp_path / "config")).list_jobsets(namespace="default")
    assert caught.value.problem_id == "tls"
    assert "self-signed certificate" in caught.value.message
    assert api.seen == []


@pytest.mark.parametrize("action", ["cut-before", "cut-after"])
def test_a_connection_cut_in_tls_is_looked_behind(over_tls: tuple[KubeApi, Path], tmp_path: Path, action: str) -> None:
    api, certificate = over_tls
    api.fail(CREATE, action=action)
    outcome = reached(api, api.kubeconfig(tmp_path / "config", ca=certificate)).create_jobset(planned())
    assert isinstance(outcome, Created)
    assert [one.method for one in api.seen] == (["POST", "GET", "POST"] if action == "cut-before" else ["POST", "GET"])


def test_another_hosts_certificate(over_tls: tuple[KubeApi, Path], tmp_path: Path) -> None:
    api, certificate = over_tls
    api.front.url = api.url.replace("127.0.0.1", "localhost")
    with pytest.raises(Unreachable) as caught:
        reached(api, api.kubeconfig(tmp_path / "config", ca=certificate)).create_jobset(planned())
    assert caught.value.problem_id == "tls"
    assert "Nothing was created" in caught.value.message


def test_plain_http_where_tls_was_meant(cluster_api: ClusterApi) -> None:
    server = cluster_api.server.url.replace("http://", "https://")
    changed(cluster_api.kubeconfig, cluster={"server": server})
    with pytest.raises(Unreachable) as caught:
        connected(cluster_api).list_jobsets(namespace="default")
    assert caught.value.problem_id == "tls"


def test_a_page_that_is_no_answer_of_kubernetes(cluster_api: ClusterApi) -> None:
    """A captive portal answers 200 to everything."""
    portal = HTTPServer(("127.0.0.1", 0), Portal)
    threading.Thread(target=portal.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    changed(cluster_api.kubeconfig, cluster={"server": f"http://127.0.0.1:{portal.server_port}"})
    try:
        for act in (lambda c: c.list_jobsets(namespace="default"), lambda c: c.create_jobset(planned())):
            with pytest.raises(XsftError, match="not as a Kubernetes API server") as caught:
                act(connected(cluster_api))
            assert caught.value.exit_status in (5, 8)
    finally:
        portal.shutdown()
        portal.server_close()


class Portal(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>Welcome</html>")

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass

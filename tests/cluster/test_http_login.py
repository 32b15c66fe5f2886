"""From a context to answers: logins, certificates, timeouts, and the error of each failure."""

from __future__ import annotations

import base64
import json
import os
import secrets
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.test_cluster import CREATE, planned
from tests.fakes.clusters import ClusterApi, furnish
from tests.fakes.kubeapi import CONTEXT, KubeApi, serving
from tests.fakes.kubeobjects import Objects
from tests.fakes.loopback import serving_http
from tests.replacing import replace
from xsft.base.errors import EnvironmentMissing, Unreachable, XsftError
from xsft.cluster.access import AccessSources, ClusterEntry, Entry, LoginProgram, UserEntry
from xsft.cluster.api import Patience
from xsft.cluster.cluster import Cluster, connect
from xsft.cluster.exactly_once import CreatedObject
from xsft.cluster.http import EARLY_S, ClusterLogin
from xsft.machine import clock
from xsft.records.run_cluster import ClusterAddress

pytestmark = [pytest.mark.standin_only("tls"), pytest.mark.loopback]

QUICK = Patience(sleep=lambda _: None, connect_timeout_s=1, read_timeout_s=0.3)
"""For a server that says nothing."""
PATIENT = replace(QUICK, connect_timeout_s=60, read_timeout_s=60)


def changed(file: Path, **parts: Any) -> Path:
    """The kubeconfig with its cluster and user entries updated."""
    config = yaml.safe_load(file.read_text())
    for kind, values in parts.items():
        config[f"{kind}s"][0][kind] = values
    file.write_text(yaml.safe_dump(config))
    return file


def connected(api: ClusterApi, *, patience: Patience = PATIENT, **env: str) -> Cluster:
    here = AccessSources(env={**api.here.env, **env}, home=api.here.home)
    return connect(ClusterAddress(context=api.context), here=here, patience=patience)


def plugin(folder: Path, name: str, body: str) -> Path:
    script = folder / name
    script.write_text(f"#!{sys.executable}\n{body}")
    script.chmod(0o700)
    return script


def test_a_login_plugin_gives_the_token(cluster_api: ClusterApi, tmp_path: Path) -> None:
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    answer = {**credential, "status": {"token": cluster_api.standin.token}}
    script = plugin(tmp_path, "login", f"print({json.dumps(answer)!r})")
    section = {"apiVersion": credential["apiVersion"], "command": str(script)}
    changed(cluster_api.kubeconfig, user={"exec": section})
    assert connected(cluster_api).whoami() == "nightly"


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


def test_a_failed_login_plugin_is_quoted_and_prints_nothing(
    cluster_api: ClusterApi, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = plugin(tmp_path, "login", "import sys; sys.exit('please run: login again')")
    section = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)}
    changed(cluster_api.kubeconfig, user={"exec": section})
    with pytest.raises(Unreachable, match="please run: login again") as caught:
        connected(cluster_api)
    assert caught.value.problem_id == "login-expired"
    assert capfd.readouterr() == ("", "")


def test_a_rejected_token_is_an_expired_login(cluster_api: ClusterApi) -> None:
    changed(cluster_api.kubeconfig, user={"token": secrets.token_hex(8)})
    with pytest.raises(Unreachable, match="rejected the login") as caught:
        connected(cluster_api).list_jobsets(namespace="default")
    assert caught.value.problem_id == "login-expired"
    assert f"kubectl --context {CONTEXT} auth whoami" in caught.value.fix


def credential(**status: Any) -> str:
    return json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})


def program(api: ClusterApi, script: Path, **more: Any) -> None:
    section = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script), **more}
    changed(api.kubeconfig, user={"exec": section})


@pytest.mark.early
def test_a_token_file_is_relative_to_its_kubeconfig(cluster_api: ClusterApi) -> None:
    (cluster_api.kubeconfig.parent / "token").write_text(f"{cluster_api.standin.token}\n")
    changed(cluster_api.kubeconfig, user={"tokenFile": "token"})
    assert connected(cluster_api).whoami() == "nightly"


def test_a_missing_token_file_is_named(cluster_api: ClusterApi) -> None:
    changed(cluster_api.kubeconfig, user={"tokenFile": "nowhere"})
    with pytest.raises(EnvironmentMissing, match=r"tokenFile \S+/nowhere cannot be read: No such file"):
        connected(cluster_api)


def test_the_first_kubeconfig_that_has_a_name_wins(cluster_api: ClusterApi, tmp_path: Path) -> None:
    config = yaml.safe_load(cluster_api.kubeconfig.read_text())
    users, clusters = tmp_path / "a" / "users", tmp_path / "b" / "clusters"
    for file, sections in ((users, ("users",)), (clusters, ("contexts", "clusters"))):
        file.parent.mkdir()
        file.write_text(yaml.safe_dump({key: config[key] for key in sections}))
    stale = {**config, "users": [{"name": config["users"][0]["name"], "user": {"token": secrets.token_hex()}}]}
    (tmp_path / "stale").write_text(yaml.safe_dump(stale))
    files = os.pathsep.join(map(str, (users, clusters, tmp_path / "stale")))
    assert connected(cluster_api, KUBECONFIG=files).whoami() == "nightly"


def test_a_login_program_gets_the_cluster_and_its_own_environment(cluster_api: ClusterApi, tmp_path: Path) -> None:
    path = tmp_path / "seen"
    answer = credential(token=cluster_api.standin.token)
    names = ("KUBERNETES_EXEC_INFO", "REGION", "MINE")
    body = f"import json, os\njson.dump([os.environ[name] for name in {names}], open({str(path)!r}, 'w'))\n"
    script = plugin(tmp_path, "login", f"{body}print({answer!r})")
    for more, cluster in (({"provideClusterInfo": True}, {"cluster": {"server": cluster_api.server.url}}), ({}, {})):
        program(cluster_api, script, env=[{"name": "REGION", "value": "us-east5"}], **more)
        assert connected(cluster_api, MINE="kept").whoami() == "nightly"
        info, *environment = json.loads(path.read_text())
        assert environment == ["us-east5", "kept"]
        version = "client.authentication.k8s.io/v1"
        spec = {"interactive": False, **cluster}
        assert json.loads(info) == {"kind": "ExecCredential", "apiVersion": version, "spec": spec}


def test_a_login_program_that_needs_a_terminal_is_refused_without_one(cluster_api: ClusterApi, tmp_path: Path) -> None:
    program(cluster_api, plugin(tmp_path, "login", "print('{}')"), interactiveMode="Always")
    with pytest.raises(Unreachable, match="needs a terminal") as caught:
        connected(cluster_api)
    assert caught.value.problem_id == "login-expired"


@pytest.mark.parametrize("answer", ["", "{}", "[]", '{"status": {}}', '{"status": {"token": ""}}', "no JSON"])
def test_a_login_program_without_credentials_is_an_expired_login(
    cluster_api: ClusterApi, tmp_path: Path, answer: str
) -> None:
    program(cluster_api, plugin(tmp_path, "login", f"print({answer!r})"))
    with pytest.raises(Unreachable, match="gave no credentials") as caught:
        connected(cluster_api)
    assert caught.value.problem_id == "login-expired"


@pytest.mark.parametrize(
    ("status", "login", "left_s"),
    [
        ({"token": "t"}, ("Bearer t", b"", b""), None),
        ({"clientCertificateData": "c", "clientKeyData": "k"}, (None, b"c", b"k"), None),
        ({"token": "t", "expirationTimestamp": 3600}, ("Bearer t", b"", b""), 3600 - EARLY_S),
        ({"token": "t", "expirationTimestamp": 100}, ("Bearer t", b"", b""), 50),
        ({"clientCertificateData": "c"}, None, None),
        ({"clientKeyData": "k"}, None, None),
    ],
)
def test_the_output_of_a_login_program_becomes_credentials_until_they_expire(
    tmp_path: Path, status: dict[str, Any], login: tuple[object, ...] | None, left_s: float | None
) -> None:
    now = int(clock.epoch())
    if "expirationTimestamp" in status:
        expires_at = datetime.fromtimestamp(now + status["expirationTimestamp"], tz=UTC)
        status = {**status, "expirationTimestamp": expires_at.isoformat()}
    script = LoginProgram(command=str(plugin(tmp_path, "login", f"print({credential(**status)!r})")))
    entry = Entry(context="lab", cluster=ClusterEntry(), user=UserEntry(exec=script))
    cluster_login = ClusterLogin(entry, gke=False, env={})
    if login is None:
        with pytest.raises(Unreachable) as caught:
            cluster_login.credentials()
        assert [(problem.id, problem.again) for problem in caught.value.problems] == [("login-expired", "never")]
        return
    credentials = cluster_login.credentials()
    assert (credentials.authorization, credentials.certificate, credentials.key) == login
    assert credentials.renew_at == (None if left_s is None else pytest.approx(now + left_s, abs=5))


def test_a_login_is_renewed_only_when_it_expires(cluster_api: ClusterApi, tmp_path: Path) -> None:
    for expires, times in (("2001-01-01T00:00:00Z", 3), ("2999-01-01T00:00:00Z", 1), (None, 1)):
        count = tmp_path / f"count-{expires}"
        answer = credential(token=cluster_api.standin.token, expirationTimestamp=expires)
        script = plugin(tmp_path, "login", f"open({str(count)!r}, 'a').write('x')\nprint({answer!r})")
        program(cluster_api, script)
        cluster = connected(cluster_api)
        assert [cluster.whoami(), cluster.whoami()] == ["nightly", "nightly"]
        assert len(count.read_text()) == times


@pytest.mark.parametrize(
    ("user", "named"),
    [
        ({"auth-provider": {"name": "gcp", "config": {}}}, "xsft has no auth-provider gcp"),
        ({"auth-provider": {"name": "oidc", "config": {"refresh-token": "r"}}}, "xsft has no auth-provider oidc"),
        ({"username": "u", "password": "p"}, "removed the login with a password"),
    ],
)
def test_a_login_that_xsft_does_not_have_is_named(cluster_api: ClusterApi, user: dict[str, Any], named: str) -> None:
    changed(cluster_api.kubeconfig, user=user)
    with pytest.raises(EnvironmentMissing, match=rf"{named}; use .*login program \(exec\)"):
        connected(cluster_api)
    assert cluster_api.server.seen == []


def test_a_proxy_url_of_the_cluster_is_used(cluster_api: ClusterApi) -> None:
    changed(cluster_api.kubeconfig, cluster={"server": "http://cluster.invalid", "proxy-url": cluster_api.server.url})
    assert_anonymous(cluster_api, connected(cluster_api))


def assert_anonymous(api: ClusterApi, cluster: Cluster) -> None:
    """The request comes, without the login: nobody on the way may read it."""
    with pytest.raises(Unreachable, match="rejected the login"):
        cluster.whoami()
    assert "authorization" not in {name.lower() for name in api.server.seen[-1].headers}


def test_no_login_is_sent_to_another_host_without_tls(cluster_api: ClusterApi) -> None:
    changed(cluster_api.kubeconfig, user={"token": "t"}, cluster={"server": "http://cluster.invalid"})
    assert_anonymous(cluster_api, connected(cluster_api, HTTP_PROXY=cluster_api.server.url))


@pytest.mark.parametrize("end", ["\n", "\r\n", " "], ids=repr)
def test_a_token_is_used_without_its_line_end(cluster_api: ClusterApi, tmp_path: Path, end: str) -> None:
    token = f"{cluster_api.token}{end}"
    login = plugin(tmp_path, "login", f"print({credential(token=token)!r})")
    (tmp_path / "token").write_text(token)
    for user in ({"token": token}, {"tokenFile": str(tmp_path / "token")}, {"exec": {"command": str(login)}}):
        changed(cluster_api.kubeconfig, user=user)
        assert connected(cluster_api).whoami() == "nightly"


@pytest.mark.parametrize("token", ["t\u00e9", "t\u20ac", "a\nb", "a\x00b"], ids=ascii)
def test_a_token_that_no_header_can_hold_is_named(cluster_api: ClusterApi, tmp_path: Path, token: str) -> None:
    login = plugin(tmp_path, "login", f"print({credential(token=token)!r})")
    for user in ({"token": token}, {"exec": {"command": str(login)}}):
        changed(cluster_api.kubeconfig, user=user)
        with pytest.raises(XsftError, match="its token has a character that a token cannot have") as caught:
            connected(cluster_api)
        assert token not in str(caught.value)


def test_a_proxy_of_the_environment_is_used_for_other_hosts(cluster_api: ClusterApi) -> None:
    changed(cluster_api.kubeconfig, cluster={"server": "http://cluster.invalid"})
    assert_anonymous(cluster_api, connected(cluster_api, HTTP_PROXY=cluster_api.server.url))
    with pytest.raises(Unreachable):
        connected(cluster_api, HTTP_PROXY=cluster_api.server.url, NO_PROXY=".invalid").list_jobsets(namespace="default")


def test_the_users_kubeconfig_is_not_written(cluster_api: ClusterApi) -> None:
    before = cluster_api.kubeconfig.read_bytes()
    connected(cluster_api).list_jobsets(namespace="default")
    assert cluster_api.kubeconfig.read_bytes() == before


def test_loopback_is_requested_without_a_proxy(cluster_api: ClusterApi, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert connected(cluster_api).whoami() == "nightly"


def test_connection_refused_is_reported_with_a_fix(cluster_api: ClusterApi) -> None:
    changed(cluster_api.kubeconfig, cluster={"server": "http://127.0.0.1:1"})
    with pytest.raises(Unreachable, match="cannot be reached: ") as caught:
        connected(cluster_api).list_jobsets(namespace="default")
    assert "0x" not in caught.value.message
    assert "kubectl --context" in caught.value.fix


def test_a_silent_server_times_out(cluster_api: ClusterApi) -> None:
    cluster_api.server.fail(".", action="hang-before", times=9)
    with pytest.raises(Unreachable, match="timed out"):
        connected(cluster_api, patience=QUICK).list_jobsets(namespace="default")


def test_a_server_without_the_api_groups_is_reported(cluster_api: ClusterApi) -> None:
    cluster_api.standin.objects.kinds.clear()
    with pytest.raises(EnvironmentMissing):
        connected(cluster_api).list_jobsets(namespace="default")


def test_a_user_without_credentials_is_asked_to_log_in(cluster_api: ClusterApi) -> None:
    changed(cluster_api.kubeconfig, user={})
    with pytest.raises(Unreachable) as caught:
        connected(cluster_api).whoami()
    assert caught.value.problem_id == "login-expired"


def test_a_context_without_its_cluster_is_reported(cluster_api: ClusterApi) -> None:
    config = yaml.safe_load(cluster_api.kubeconfig.read_text())
    cluster_api.kubeconfig.write_text(yaml.safe_dump({**config, "clusters": []}))
    with pytest.raises(EnvironmentMissing, match="cannot be used"):
        connected(cluster_api)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate of loopback, its key beside it."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "tls.crt", folder / "tls.key"
    names = ("-subj", "/CN=stand-in", "-addext", "subjectAltName=IP:127.0.0.1")
    argv = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", str(key))
    try:
        subprocess.run((*argv, "-out", str(certificate), *names), check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("NOT RUN: openssl makes the certificate, and it is not installed")
    return certificate


@pytest.fixture
def over_tls(shown: Path) -> Iterator[tuple[KubeApi, Path]]:
    """The stand-in over TLS, and the certificate that it shows."""
    with serving(KubeApi(objects=furnish(Objects())), certificate=(shown, shown.with_suffix(".key"))) as api:
        yield api, shown


def reached(api: KubeApi, config: Path) -> Cluster:
    here = AccessSources(env={**os.environ, "KUBECONFIG": str(config)}, home=config.parent)
    return connect(ClusterAddress(context=CONTEXT), here=here, patience=PATIENT)


def test_a_trusted_certificate_is_accepted(over_tls: tuple[KubeApi, Path], tmp_path: Path) -> None:
    api, certificate = over_tls
    assert reached(api, api.kubeconfig(tmp_path / "config", ca=certificate)).whoami() == "nightly"


def test_insecure_skip_tls_verify_accepts_any_certificate(over_tls: tuple[KubeApi, Path], tmp_path: Path) -> None:
    api, _ = over_tls
    config = changed(api.kubeconfig(tmp_path / "config"), cluster={"server": api.url, "insecure-skip-tls-verify": True})
    assert reached(api, config).whoami() == "nightly"


def test_tls_server_name_accepts_a_certificate_of_that_name(over_tls: tuple[KubeApi, Path], tmp_path: Path) -> None:
    api, certificate = over_tls
    url = api.url.replace("127.0.0.1", "localhost")
    trust = {"server": url, "certificate-authority": str(certificate)}
    config = changed(api.kubeconfig(tmp_path / "config"), cluster={**trust, "tls-server-name": "127.0.0.1"})
    assert reached(api, config).whoami() == "nightly"


@pytest.mark.parametrize("by", ["files", "data", "program", "none"])
def test_a_client_certificate_is_sent(over_tls: tuple[KubeApi, Path], tmp_path: Path, by: str) -> None:
    _, certificate = over_tls
    key = certificate.with_suffix(".key")
    pem = {"certificate": certificate.read_text(), "key": key.read_text()}
    match by:
        case "files":
            user: dict[str, Any] = {"client-certificate": str(certificate), "client-key": str(key)}
        case "data":
            user = {f"client-{name}-data": base64.b64encode(text.encode()).decode() for name, text in pem.items()}
        case "program":
            answer = credential(clientCertificateData=pem["certificate"], clientKeyData=pem["key"])
            user = {"exec": {"command": str(plugin(tmp_path, "login", f"print({answer!r})"))}}
        case _:
            user = {}
    with demanding(certificate, key) as url:
        users = [{"name": "u", "user": user}]
        clusters = [{"name": "c", "cluster": {"server": url, "certificate-authority": str(certificate)}}]
        contexts = [{"name": CONTEXT, "context": {"cluster": "c", "user": "u"}}]
        config = tmp_path / "config"
        config.write_text(yaml.safe_dump({"users": users, "clusters": clusters, "contexts": contexts}))
        cluster = connect(
            ClusterAddress(context=CONTEXT),
            here=AccessSources(env={**os.environ, "KUBECONFIG": str(config)}, home=tmp_path),
            patience=PATIENT,
        )
        if by == "none":
            with pytest.raises(Unreachable):
                cluster.whoami()
        else:
            assert cluster.whoami() == "shown"


@contextmanager
def demanding(certificate: Path, key: Path) -> Iterator[str]:
    """A server that requires a certificate signed by its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(certificate)
    context.verify_mode = ssl.CERT_REQUIRED

    class Review(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps({"status": {"userInfo": {"username": "shown"}}}).encode()
            self.send_response(201)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(HTTPServer):
        def handle_error(self, *_: object) -> None:
            pass

    server = Quiet(("127.0.0.1", 0), Review)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_untrusted_certificate_is_a_tls_error(over_tls: tuple[KubeApi, Path], tmp_path: Path) -> None:
    api, _ = over_tls
    with pytest.raises(Unreachable, match="TLS connection") as caught:
        reached(api, api.kubeconfig(tmp_path / "config")).list_jobsets(namespace="default")
    assert caught.value.problem_id == "tls"
    assert "self-signed certificate" in caught.value.message
    assert api.seen == []


@pytest.mark.parametrize("action", ["cut-before", "cut-after"])
def test_a_tls_connection_cut_at_a_create_is_followed_by_a_read(
    over_tls: tuple[KubeApi, Path], tmp_path: Path, action: str
) -> None:
    api, certificate = over_tls
    api.fail(CREATE, action=action)
    outcome = reached(api, api.kubeconfig(tmp_path / "config", ca=certificate)).create_jobset(planned())
    assert isinstance(outcome, CreatedObject)
    assert [request.method for request in api.seen] == (
        ["POST", "GET", "POST"] if action == "cut-before" else ["POST", "GET"]
    )


def test_a_certificate_of_another_host_is_a_tls_error(over_tls: tuple[KubeApi, Path], tmp_path: Path) -> None:
    api, certificate = over_tls
    api.front.url = api.url.replace("127.0.0.1", "localhost")
    with pytest.raises(Unreachable) as caught:
        reached(api, api.kubeconfig(tmp_path / "config", ca=certificate)).create_jobset(planned())
    assert caught.value.problem_id == "tls"
    assert "Nothing was created" in caught.value.message


def test_a_plain_http_server_is_a_tls_error(cluster_api: ClusterApi) -> None:
    server = cluster_api.server.url.replace("http://", "https://")
    changed(cluster_api.kubeconfig, cluster={"server": server})
    with pytest.raises(Unreachable) as caught:  # it may wait for the end of a line
        connected(cluster_api, patience=QUICK).list_jobsets(namespace="default")
    assert caught.value.problem_id == "tls"


def test_a_captive_portal_is_not_a_kubernetes_answer(cluster_api: ClusterApi) -> None:
    """A captive portal answers 200 to everything."""
    with serving_http(Portal) as portal:
        changed(cluster_api.kubeconfig, cluster={"server": portal})
        for act in (lambda c: c.list_jobsets(namespace="default"), lambda c: c.create_jobset(planned())):
            with pytest.raises(XsftError, match="not as a Kubernetes API server") as caught:
                act(connected(cluster_api))
            assert caught.value.exit_status in (5, 8)


class Portal(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>Welcome</html>")

    do_POST = do_GET  # noqa: N815

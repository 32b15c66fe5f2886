"""Each failure of the transport to a cluster is reported with its meaning and a fix, in words of xsft."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import pytest

from tests.fakes.clusters import ClusterApi
from tests.fakes.gcs import Bucket, serving
from tests.faults.transports import TRANSPORTS, Scene, failing, plugged
from tests.submissions import planned, submitter
from xsft.base.errors import XsftError
from xsft.cluster.api import Patience
from xsft.verbs.cli import main, report_failure

pytestmark = pytest.mark.loopback

LIBRARY = re.compile(
    r"ConnectionPool|HTTPS?Connection|urllib3|requests\.exc|Errno|Error\(|Exception|0x[0-9a-f]{6}|_ssl|\[SSL|Traceback"
    r"|IncompleteRead|Max retries|<html|<!DOCTYPE|NoneType|None\b|\.\.(?!\.)",
)
"""Words of libraries that no message may contain."""
PATIENT = Patience(tries=2, first_wait_s=0.05, longest_s=0.2)
SILENCE = Patience(tries=2, first_wait_s=0.05, longest_s=0.2, connect_timeout_s=0.15, read_timeout_s=0.15)
"""Where nothing ever answers."""
BOUND_S = 25.0
"""Of one verb with that patience, on a busy machine; less than the wait for an answer."""
MISSING = "login program missing"
HANGS = "login program hangs"
ASKED = tuple(name for name, breaks in TRANSPORTS.items() if getattr(breaks, "func", None) is failing)
"""Those through which a request reaches the cluster, or may."""
SILENT = {"packets dropped", "no response", "no TLS response", "half a response, then none"}

TOLD = {
    "unknown host": "the name xsft-tests-nowhere.invalid could not be resolved",
    "connection refused": "connection refused",
    "packets dropped": "timed out",
    "no response": "timed out",
    "no TLS response": "timed out",
    "half a response, then none": "timed out",
    "half a response, then closed": "incomplete answer",
    "connection closed": "connection closed or reset",
    "connection closed during TLS": "the TLS handshake failed",
    "plain HTTP instead of TLS": "the server does not speak TLS on this port",
    "self-signed certificate": "it has a self-signed certificate, which this machine does not trust",
    "expired certificate": "its certificate has expired, or this machine's clock is wrong",
    "certificate of another host": "its certificate is for another host",
    "proxy down": "the proxy could not be reached",
    "proxy login required": "the proxy requires a login (407)",
    "host refused by proxy": "the proxy refused the host (403 Forbidden)",
    "reset": "connection closed or reset",
    "reset after the request was served": "connection closed or reset",
    "truncated body": "incomplete answer",
    "truncated JSON": "an incomplete answer: its JSON ends early",
    "truncated gzip": "an incomplete answer: its JSON ends early",
    "login page": "answers, but not as a Kubernetes API server",
    "page with 403": "answers, but not as a Kubernetes API server",
    "page with 502": "HTTP 502 (a web page instead of an answer)",
    "page with 404": "answers, but not as a Kubernetes API server",
    "redirect": "answers, but not as a Kubernetes API server",
    "401": "rejected the login of the context",
    "429": "HTTP 429 Too many requests, please try again later.",
    "429 for an hour": "Try again in 1h;",
    "500": "HTTP 500 etcdserver: request timed out",
    "503": "HTTP 503 the server is currently unable to handle the request",
    MISSING: "logs in with some-login, which is not on PATH",
    "login program fails": "gave no credentials: ERROR: (gcloud.config)",
    HANGS: "timed out",
}
VERBS: dict[str, tuple[str, ...]] = {
    "status": (),
    "why": ("nosuch",),
    "logs": ("nosuch",),
    "wait": ("nosuch", "--timeout", "0s"),
    "cancel": ("nosuch", "--yes"),
}
TURNS = dict(zip(TRANSPORTS, cycle(verb for verb in VERBS if verb != "status"), strict=False))
"""The verbs beside `status` and `submit`, in turn: all of them look at runs as `status` does."""


@dataclass(frozen=True, kw_only=True)
class Said:
    status: int
    out: str
    err: str


Ask = Callable[[str], Said]


@pytest.fixture
def ask(
    cluster_api: ClusterApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Ask:
    """A verb, as on a command line; of `submit` the part that asks the cluster."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("KUBECONFIG", str(cluster_api.kubeconfig))
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("xsft.runs.read_all.FOR_READS", PATIENT)
    monkeypatch.setattr(ClusterApi, "patience", PATIENT)
    monkeypatch.setattr("xsft.runs.waiting.GRACE_S", BOUND_S)  # its one look is to find out what is broken

    def asked(verb: str) -> Said:
        if verb == "submit":
            status = submitted(cluster_api, tmp_path)
        else:
            where = ("--context", cluster_api.context, "--namespace", cluster_api.namespace)
            status = main((verb, *VERBS[verb], *where))
        captured = capsys.readouterr()
        return Said(status=status, out=captured.out, err=captured.err)

    return asked


def submitted(api: ClusterApi, folder: Path) -> int:
    with serving(Bucket({})) as bucket:
        try:
            submitter(api, bucket_url=bucket.url, state=folder / "state").submit(planned(namespace=api.namespace))
        except XsftError as failed:
            return report_failure(failed, ("submit",))
    return 0


@pytest.mark.parametrize("transport", ASKED)
def test_verbs_explain_each_transport_failure_and_name_a_fix(
    cluster_api: ClusterApi, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    says_it(transport, cluster_api, ask, tmp_path, monkeypatch)


@pytest.mark.standin_only("no-request")
@pytest.mark.parametrize("transport", [name for name in TRANSPORTS if name not in ASKED])
def test_verbs_explain_each_transport_failure_that_sends_no_request(
    cluster_api: ClusterApi, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    says_it(transport, cluster_api, ask, tmp_path, monkeypatch)


def says_it(transport: str, cluster_api: ClusterApi, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = 3 if transport == MISSING else 5
    if transport in SILENT:
        monkeypatch.setattr("xsft.runs.read_all.FOR_READS", SILENCE)
        monkeypatch.setattr(ClusterApi, "patience", SILENCE)
    if transport == HANGS:
        monkeypatch.setattr("xsft.cluster.http.LOGIN_TIMEOUT_S", 0.5)
    with TRANSPORTS[transport](Scene(api=cluster_api, folder=tmp_path)) as env:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        for verb in ("status", TURNS[transport], "submit"):
            began = time.monotonic()
            answer = ask(verb)
            assert time.monotonic() - began < BOUND_S, verb
            assert (answer.status, answer.out) == (expected, ""), (verb, answer)
            assert TOLD[transport] in answer.err, (verb, answer.err)
            assert not LIBRARY.findall(answer.err), (verb, answer.err)
            assert re.search(r"^  fix: .{10}", answer.err, re.MULTILINE), (verb, answer.err)
            assert cluster_api.context in answer.err, (verb, answer.err)


def test_every_transport_has_its_expected_message() -> None:
    assert TOLD.keys() == TRANSPORTS.keys()


@pytest.mark.standin_only("no-request")
def test_status_waits_only_once_for_a_login_program_that_hangs(
    cluster_api: ClusterApi, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = tmp_path / "counted"
    body = f"import time\nopen({str(counted)!r}, 'a').write('x')\ntime.sleep(20)"
    monkeypatch.setattr("xsft.cluster.http.LOGIN_TIMEOUT_S", 3.0)
    with plugged(Scene(api=cluster_api, folder=tmp_path), body):
        assert ask("status").status == 5
    assert counted.read_text() == "x"

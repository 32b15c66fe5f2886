"""`--notify`: one document at the end, to an address that nothing shows; its failure changes nothing."""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.documents import read_document
from tests.fakes.loopback import serving_http
from xsft.base.errors import RunFailed, Unreachable
from xsft.machine.http_session import NOTICE_S, post_notice
from xsft.verbs.cli import main, parser
from xsft.verbs.notify import run_and_notify

ENV = "NIGHT_WEBHOOK"


@dataclass
class Receiver:
    address: str = ""
    posted: list[tuple[str, str, bytes]] = field(default_factory=list)
    """Path, content type and body."""


class Receives(BaseHTTPRequestHandler):
    posted: list[tuple[str, str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.posted.append((self.path, self.headers["Content-Type"], body))
        match self.path.split("/"):
            case [_, "hang", _]:
                time.sleep(2)
            case [_, "dribble", _]:
                self.wfile.write(b"HTTP/1.0 200 OK\r\n")
                for _ in range(20):
                    self.wfile.write(b"X-More: 1\r\n")
                    time.sleep(0.1)
            case [_, "moved", _]:
                self.send_response(307)
                self.send_header("Location", "/answers/elsewhere")
                self.end_headers()
            case [_, status, _]:
                self.send_response(int(status))
                self.end_headers()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    posted: list[tuple[str, str, bytes]] = []
    with serving_http(Receives, posted=posted) as address:
        yield Receiver(address=address, posted=posted)


def unused_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_the_end_of_a_verb_is_posted_once(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(ENV, f"{receiver.address}/204/{secrets.token_hex(8)}\n")
    assert main(("run", "nosuch.yaml", "--notify", ENV, "--json")) == 2
    ((_, kind, body),) = receiver.posted
    notice = read_document("notice", body)
    printed = json.loads(capfd.readouterr().out)
    assert (kind, notice["schema"], notice["exit_status"]) == ("application/json", "xsft.notice/1", 2)
    assert (notice["verb"], notice["file"], notice["run_name"]) == ("run", "nosuch.yaml", None)
    assert notice["problems"] == printed["problems"]
    assert notice["text"].startswith("xsft run nosuch.yaml: exit status 2. ")


@pytest.mark.parametrize(
    ("error", "status", "end"),
    [
        (None, 0, "done"),
        (RunFailed("the last step is missing", fix="xsft why a"), 6, "exit status 6. the last step is missing"),
        (KeyboardInterrupt(), 130, "exit status 130."),
        (ZeroDivisionError(), 1, "exit status 1."),
    ],
    ids=repr,
)
def test_every_end_is_posted_and_stays(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, error: BaseException | None, status: int, end: str
) -> None:
    def verb_run(_args: object) -> int:
        if error is not None:
            raise error
        return 0

    monkeypatch.setenv(ENV, f"{receiver.address}/200/x")
    args = parser().parse_args(("wait", "gemma", "--notify", ENV))
    if error is None:
        assert run_and_notify(verb_run, args) == 0
    else:
        with pytest.raises(type(error)) as raised:
            run_and_notify(verb_run, args)
        assert raised.value is error
    ((_, _, body),) = receiver.posted
    notice = read_document("notice", body)
    assert (notice["exit_status"], notice["text"]) == (status, f"xsft wait gemma: {end}")


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("500", "the server answered 500"),
        ("moved", "the server answered 307"),
        ("", "connection refused"),
        ("http://example.com/{secret}", "holds neither an https:// address nor one on this machine"),
        ("http://[::1/{secret}", "holds neither an https:// address nor one on this machine"),
        ("https://{server}/{secret}", "the server does not speak TLS on this port"),
        ("https://{long}/{secret}", "it is not a valid address"),
        ("https://localhost:99999/{secret}", "it is not a valid address"),
        ("https://localhost:port/{secret}", "it is not a valid address"),
        (None, "is not set"),
    ],
)
def test_a_failure_is_one_warning_without_the_address(
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    where: str | None,
    reason: str,
) -> None:
    secret = secrets.token_hex(8)
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv(ENV, raising=False)
    if where is not None:
        server = receiver.address if where else unused_address()
        host = receiver.address.removeprefix("http://")
        address = where.format(secret=secret, server=host, long=f"{secret}." + "a" * 64)
        monkeypatch.setenv(ENV, address if "://" in where else f"{server}/{where}/{secret}")
    assert main(("run", "nosuch.yaml", "--notify", ENV)) == 2
    err = capfd.readouterr().err
    assert err.count("[notice-not-sent]") == 1
    assert reason in err
    assert secret not in err
    assert not any(secret in file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    assert "/answers/elsewhere" not in [path for path, _, _ in receiver.posted]


@pytest.mark.parametrize("how", ["hang", "dribble"])
def test_a_server_has_ten_seconds_for_its_whole_answer(receiver: Receiver, how: str) -> None:
    began = time.monotonic()
    with pytest.raises(Unreachable, match=r"within 0\.5 s|timed out"):
        post_notice(f"{receiver.address}/{how}/x", "{}", timeout_s=0.5)
    assert time.monotonic() - began < 1.5
    assert NOTICE_S == 10


@pytest.mark.parametrize("verb", [("run", "a.yaml"), ("wait", "gemma"), ("submit", "a.yaml", "--wait")])
def test_an_address_on_the_command_line_is_refused_and_not_repeated(
    verb: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    secret = secrets.token_hex(8)
    assert main((*verb, "--notify", f"https://chat.example.com/{secret}")) == 2
    err = capfd.readouterr().err
    assert "put it into a variable, e.g. NIGHT_WEBHOOK, and pass --notify NIGHT_WEBHOOK" in err
    assert secret not in err


def test_submit_that_does_not_wait_has_no_end_to_post(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(("submit", "a.yaml", "--notify", ENV)) == 2
    assert "--notify needs --wait or --follow" in capfd.readouterr().err
    assert main(("run", "a.yaml", "--no-wait", "--notify", ENV)) == 2
    assert "--no-wait waits for none" in capfd.readouterr().err
    assert main(("submit", "a.yaml", "--dry-run", "--notify", ENV)) == 2
    assert "notice" not in capfd.readouterr().err

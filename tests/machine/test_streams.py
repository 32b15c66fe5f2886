"""Secrets are removed from everything written to a standard stream, by any library."""

from __future__ import annotations

import argparse
import io
import sys

import pytest

from tests.base.test_secrets_secret_shapes import PEM, random
from tests.until import until
from xsft.machine.streams import ScreenedStream, prepare_streams, print_if_slow

TOKEN = "hf" + "_" + "aB3" * 12


def test_a_screened_stream_hides_secrets_from_any_writer() -> None:
    under = io.StringIO()
    stream = ScreenedStream(under)
    print("a", TOKEN, "b", file=stream)
    stream.writelines((f"{TOKEN}\n", "plain\n"))
    argparse.ArgumentParser(prog=TOKEN).print_usage(stream)
    assert under.getvalue() == "a … b\n…\nplain\nusage: … [-h]\n"


@pytest.mark.parametrize("controls", [True, False])
def test_a_secret_that_colours_cut_is_hidden(*, controls: bool) -> None:
    under = io.StringIO()
    ScreenedStream(under, controls=controls).write(f"a \x1b[1;31m{TOKEN[:3]}\x1b[m\x1b[K{TOKEN[3:]} b\n")
    assert under.getvalue() == "a … b\n"


def test_a_key_that_is_printed_line_by_line_between_other_lines_is_hidden() -> None:
    under = io.StringIO()
    stream = ScreenedStream(under)
    body = [random(64), random(64), f"{random(20)}=="]
    for line in ("worker 0: " + PEM.format("BEGIN"), *body, PEM.format("END"), f"step 1 of {'a' * 20}"):
        print(line, file=stream)
        print("worker 1: completed step: 12", file=stream)
    shown = under.getvalue()
    assert shown.count("worker 1: completed step: 12") == len(body) + 3
    assert "a" * 20 in shown
    assert not any(part in shown for part in body)


def test_a_screened_stream_has_all_attributes_of_the_stream() -> None:
    under = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="backslashreplace")
    stream = ScreenedStream(under)
    assert stream.write("é") == 1
    stream.flush()
    assert (stream.encoding, stream.isatty(), under.buffer.getvalue()) == ("ascii", False, b"\\xe9")


def test_the_standard_streams_are_screened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", None)
    prepare_streams()
    first = sys.stdout
    prepare_streams()
    assert sys.stdout is first
    assert not isinstance(first.stream, ScreenedStream)
    assert sys.stderr.write(TOKEN) == len(TOKEN)
    sys.stderr.stream.close()


def test_print_if_slow_names_slow_work_once_and_quick_work_never(capsys: pytest.CaptureFixture[str]) -> None:
    with print_if_slow("quick", after_s=3600):
        pass
    lines: list[str] = []
    with print_if_slow("waiting for it", after_s=0):
        until(lambda: lines.append(capsys.readouterr().err) or any(lines))
    assert "".join(lines) == "waiting for it\n"

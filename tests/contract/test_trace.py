"""The trace of a real run, and the printed command that opens it: TensorBoard with its profile plugin, on loopback."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.control_plane.ports import free_port
from tests.tunedmodels import Memorised
from tests.until import until
from xsft.launch.local_folder import newest_trace
from xsft.verbs.submission import trace_lines

pytestmark = pytest.mark.trainer


@pytest.fixture(scope="module")
def tensorboard(memorised: Memorised) -> Iterator[str]:
    """The address of what the run's last line starts."""
    _, line = trace_lines(memorised.result.folder)
    program, *options = shlex.split(line.removeprefix("open it      "))
    uvx = (str(Path(sys.executable).with_name(program)), *options)
    fetched = subprocess.run((*uvx[:-2], "--version"), capture_output=True, text=True, check=False)
    if fetched.returncode:
        pytest.skip(f"TensorBoard cannot be fetched here: {fetched.stderr[-300:]}")
    port = free_port()
    with subprocess.Popen((*uvx, "--port", str(port)), stdout=-3, stderr=-3, env=dict(os.environ)) as started:
        yield f"http://127.0.0.1:{port}/data/plugin/profile"
        started.terminate()


def test_the_trace_is_named_with_its_size(memorised: Memorised) -> None:
    first, _ = trace_lines(memorised.result.folder)
    trace = newest_trace(memorised.result.folder)
    assert trace is not None
    assert str(trace.path) in first
    assert first.endswith("MB)")
    assert trace.bytes > 100_000


def test_the_printed_command_opens_the_trace(memorised: Memorised, tensorboard: str) -> None:
    trace = newest_trace(memorised.result.folder)
    assert trace is not None
    runs = until(lambda: _answer(f"{tensorboard}/runs"), what="TensorBoard", within_s=600)
    assert runs == [trace.path.parent.name]
    tools = requests.get(f"{tensorboard}/run_tools", {"run": runs[0]}, timeout=300).json()
    assert {"overview_page", "trace_viewer@"} <= set(tools)
    query = {"run": runs[0], "tag": "trace_viewer@", "host": trace.path.name.partition(".")[0]}
    events = requests.get(f"{tensorboard}/data", query, timeout=300).json()["traceEvents"]
    assert len(events) > 100


def _answer(address: str) -> list[str]:
    try:
        return list(requests.get(address, timeout=300).json())
    except (requests.ConnectionError, requests.JSONDecodeError):
        return []

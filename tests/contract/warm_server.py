"""Runs in MaxText's environment: imports MaxText once, then runs each program that tests/warm.py sends in a fork.

usage: warm_server.py SOCKET. A request is `{"argv": [PROGRAM, …], "env": {…}, "cwd": …}` with three file descriptors;
the answer is the program's exit status.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import unittest  # noqa: F401 - MaxText exits the process on a configuration error unless it sees this module
from pathlib import Path
from typing import Any

import datasets  # noqa: F401
from maxtext.configs import pyconfig  # noqa: F401
from maxtext.input_pipeline import input_pipeline_interface  # noqa: F401
from maxtext.utils import maxtext_utils  # noqa: F401
from transformers import AutoTokenizer  # noqa: F401

MOST = 1 << 16
"""Bytes of a request."""


def serve(path: str) -> None:
    sys.path.append(str(Path(__file__).parent))  # -I leaves it out
    from maxtext_quick import quicken

    quicken()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(path)
        server.listen()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            asking, _ = server.accept()
            request, streams, *_ = socket.recv_fds(asking, MOST, 3)
            if os.fork() == 0:
                asking.send(str(run(json.loads(request), streams)).encode())
                os._exit(0)
            for one in (*streams, asking.detach()):
                os.close(one)


def run(request: dict[str, Any], streams: list[int]) -> int:
    """The exit status of the program."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    tempfile.tempdir = None
    sys.argv = request["argv"]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    serve(sys.argv[1])

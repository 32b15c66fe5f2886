"""Runs in MaxText's environment: imports MaxText once, then runs each program that tests/warm.py sends in a fork.

usage: warm_server.py SOCKET. A request is `{"argv": [PROGRAM, …], "env": {…}, "cwd": …}` with three file descriptors,
or has `-c CODE` or `-m MODULE` for the program; the answer is its exit status. A program whose client ends first is
killed, and all that it started, as a program of the real interpreter ends with xsft.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import threading
import unittest  # noqa: F401 - MaxText exits the process on a configuration error unless it sees this module
from pathlib import Path
from typing import Any

import datasets  # noqa: F401
from maxtext.configs import pyconfig  # noqa: F401
from maxtext.input_pipeline import input_pipeline_interface  # noqa: F401
from maxtext.trainers.post_train.sft import hooks  # noqa: F401
from maxtext.trainers.pre_train import train  # noqa: F401
from maxtext.utils import lora_utils, maxtext_utils, model_creation_utils  # noqa: F401
from transformers import AutoTokenizer  # noqa: F401

MOST = 1 << 17
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
                os.setpgid(0, 0)
                threading.Thread(target=end_with, args=(asking,), daemon=True).start()
                asking.send(str(run(json.loads(request), streams)).encode())
                os._exit(0)
            for one in (*streams, asking.detach()):
                os.close(one)


def end_with(client: socket.socket) -> None:
    """Wait for the end of the client, which sends nothing more."""
    client.recv(1)
    os.killpg(0, signal.SIGKILL)


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
        start()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        threading._shutdown()  # type: ignore[attr-defined] # as the interpreter does at its end: what is being saved
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def start() -> None:
    match sys.argv:
        case ["-c", code, *rest]:
            sys.argv = ["-c", *rest]
            exec(code, {"__name__": "__main__"})
        case ["-m", module, *rest]:
            sys.argv = [module, *rest]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case _:
            runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    serve(sys.argv[1])

"""usage: warm_client.py SOCKET ENDPOINT PYTHON ARGUMENT… As `PYTHON ARGUMENT…`, but a file, `-c CODE` and a module of
MaxText's run in warm_server.py.

Not with another HF_ENDPOINT than ENDPOINT, the server's: the hub's client reads it when it is imported.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

path, endpoint, python, *arguments = sys.argv[1:]
words = arguments[arguments[0] == "-I" :]
match words:
    case ["-c", *_]:
        known = True
    case ["-m", module, *_]:
        known = module.startswith("maxtext.")
    case [program, *_]:
        known = Path(program).is_file()
    case _:
        known = False
if not known or os.environ.get("HF_ENDPOINT", endpoint) != endpoint:
    os.execv(python, [python, *arguments])
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect(path)
    request = {"argv": words, "env": dict(os.environ), "cwd": str(Path.cwd())}
    socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
    sys.exit(int(server.recv(9) or 1))

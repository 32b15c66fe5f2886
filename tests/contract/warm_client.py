"""usage: warm_client.py SOCKET PYTHON ARGUMENT… As `PYTHON ARGUMENT…`, but `-I PROGRAM …` runs in warm_server.py.

Not if it may ask the hub: the hub's client reads HF_ENDPOINT when it is imported.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

path, python, *arguments = sys.argv[1:]
if arguments[0] != "-I" or not Path(arguments[1]).is_file() or "HF_ENDPOINT" in os.environ:
    os.execv(python, [python, *arguments])
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect(path)
    request = {"argv": arguments[1:], "env": dict(os.environ), "cwd": str(Path.cwd())}
    socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
    sys.exit(int(server.recv(9) or 1))

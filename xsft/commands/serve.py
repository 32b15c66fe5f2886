"""`xsft serve FOLDER`: serve a Hugging Face model on this machine."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

from xsft.commands.documents import print_json
from xsft.commands.progress import shown
from xsft.effects.environments import environments
from xsft.effects.local.engine_server import NAMED, Server, serve
from xsft.effects.local.served_model import served_model
from xsft.effects.machine.ports import free_port
from xsft.effects.machine.scratch import scratch_folder
from xsft.effects.machine.signals import raised

QUESTION = {"model": NAMED, "messages": [{"role": "user", "content": "Hello"}]}


def run(args: argparse.Namespace) -> int:
    with shown("setting up") as progress:
        engine = environments.ensure("engine", progress=progress)
    server = Server(model=served_model(Path(args.model), engine=engine), port=free_port(args.port))
    with raised(lambda _number: KeyboardInterrupt("terminated")), scratch_folder("serve") as scratch:
        serve(server, engine=engine, scratch=scratch, ready=lambda: _say(server, as_json=args.json))
    return 0


def _say(server: Server, *, as_json: bool) -> None:
    if as_json:
        print_json("serve", {"url": server.url, "model": NAMED, "folder": str(server.model.folder)})
        sys.stdout.flush()
        return
    print(f"serving {server.model.folder} ({server.model.model_type}); Ctrl-C stops it")
    print(shlex.join(_curl(server)), flush=True)


def _curl(server: Server) -> tuple[str, ...]:
    kind = "Content-Type: application/json"
    return ("curl", "-sS", f"{server.url}/chat/completions", "-H", kind, "-d", json.dumps(QUESTION))

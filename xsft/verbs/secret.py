"""`xsft secret create NAME`: create the Kubernetes Secret that a workload names. Its value comes from stdin or a file,
never from argv."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from msgspec.structs import asdict

from xsft.base.errors import UsageError
from xsft.base.secrets import looks_secret
from xsft.machine.secretvalue import read_secret_file, read_secret_stdin
from xsft.verbs.plan_document import print_json
from xsft.world.new_secret import CreatedSecret, SecretRequest, create_secret


def run(args: argparse.Namespace) -> int:
    _refuse_values(args)
    request = SecretRequest(
        name=args.name, key=args.key, place=args.place, context=args.context, namespace=args.namespace
    )
    _report_secret(create_secret(request, read=lambda: _read_value(args.from_file)), as_json=args.json)
    return 0


def _read_value(file: str | None) -> bytes:
    return read_secret_file(Path(file)) if file else read_secret_stdin(sys.stdin.buffer)


def _refuse_values(args: argparse.Namespace) -> None:
    """Raise UsageError for any argument that could be the value, without showing it."""
    texts = [text for text in vars(args).values() if isinstance(text, str)]
    if args.stray or args.literal is not None or any(map(looks_secret, texts)):
        raise UsageError(
            "A value was given on the command line, which every user of this machine can read. xsft does not use "
            "or show it.",
            fix="Pipe it in (xsft secret create NAME < FILE) or give --from-file FILE; replace a token that was "
            "exposed.",
            id="secret-on-command-line",
        )


def _report_secret(made: CreatedSecret, *, as_json: bool) -> None:
    if as_json:
        print_json("secret", {"action": "created", **asdict(made)})
        return
    print(f"created the Secret {made.name}, key {made.key}, in namespace {made.namespace} (context {made.context})")
    print(f"in a workload: secrets: {{hf_token: {{secret: {made.name}, key: {made.key}}}}}")

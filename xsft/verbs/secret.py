"""`xsft secret create NAME`: create the Kubernetes Secret that a workload names. Its value comes from stdin or a file,
never from argv."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

from xsft.base.errors import UsageError
from xsft.base.secrets import looks_secret
from xsft.machine.regular import read_secret_file, read_secret_stdin
from xsft.verbs.document import VerbDocument, document_of, report_document, request_of, show_spinner
from xsft.world.new_secret import SecretRequest, create_secret


class SecretDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.secret/1"):
    """`xsft secret create NAME --json`. It never contains the value."""

    action: Literal["created"]
    """What was done; a Secret that exists is an error (exit status 4): nothing is overwritten."""
    name: str
    key: str
    namespace: str
    context: str
    """The kubeconfig context of its cluster."""


def run(args: argparse.Namespace) -> int:
    _refuse_values(args)
    created = create_secret(
        request_of(args, SecretRequest),
        read=lambda: _read_value(args.from_file),
        waiting=partial(show_spinner, "secret"),
    )
    return report_document(document_of(SecretDocument, created, action="created"), _secret_lines, as_json=args.json)


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


def _secret_lines(created: SecretDocument) -> Iterator[str]:
    where = f"namespace {created.namespace} (context {created.context})"
    yield f"created the Secret {created.name}, key {created.key}, in {where}"
    reference = f"{{secret: {created.name}, key: {created.key}}}"
    yield f"in a workload: secrets: {{hf_token: {reference}}}, or secrets: {{env: {{WANDB_API_KEY: {reference}}}}}"

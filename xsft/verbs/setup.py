"""`xsft setup`: build, verify and repair the environments of xpk, MaxText, the engine and the TPU compiler."""

from __future__ import annotations

import argparse
from typing import Literal

from xsft.environments import environments
from xsft.verbs.document import Document, VerbDocument, document_of, print_document, print_lines, show_progress


class Environment(Document, frozen=True, kw_only=True):
    """An environment that is ready."""

    name: Literal["xpk", "maxtext", "engine", "compiler"]
    version: str
    """Version of xpk, MaxText, mlx-lm or libtpu."""
    digest: str
    """sha256 of the lock file from which it was installed."""
    python: str
    """Path of its Python interpreter."""


class SetupDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.setup/1"):
    """`xsft setup --json`."""

    environments: tuple[Environment, ...]


def run(args: argparse.Namespace) -> int:
    bring = environments.repair if args.verify else environments.ensure
    with show_progress("setting up") as progress:
        ready = [bring(name, progress=progress) for name in args.names or environments.USUAL]
    if args.json:
        rows = tuple(document_of(Environment, built, python=str(built.python)) for built in ready)
        print_document(SetupDocument(environments=rows))
    else:
        print_lines(f"{environment.name} {environment.version}: {environment.folder}" for environment in ready)
    return 0

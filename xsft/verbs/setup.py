"""`xsft setup`: build, verify and repair the environments of xpk, MaxText, the engine and the TPU compiler."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from xsft.environments import environments
from xsft.verbs.document import Document, VerbDocument, document_of, report_document, show_progress


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
    rows = tuple(document_of(Environment, built, python=str(built.python)) for built in ready)
    return report_document(SetupDocument(environments=rows), _setup_lines, as_json=args.json)


def _setup_lines(document: SetupDocument) -> Iterator[str]:
    for environment in document.environments:
        yield f"{environment.name} {environment.version}: {Path(environment.python).parents[1]}"

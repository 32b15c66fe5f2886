"""Arguments of the verbs about runs: which run, and where to look for it."""

from __future__ import annotations

import argparse
import os
import re
import shlex

from xsft.commands.arguments import a_name


def add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=a_run, metavar="RUN", help="exact run name (or JobSet), as `xsft status` shows it")


def add_attempt(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--attempt", type=a_count, metavar="N", help="number of the submission, from 1 (default: the newest)"
    )


def a_count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0")
    return int(text)


def a_run(text: str) -> str:
    """Return the run's name, or the absolute path of a local run's folder, which has a slash as no name has."""
    return os.path.abspath(os.path.expanduser(text)) if "/" in text else text


def add_where(parser: argparse.ArgumentParser) -> None:
    """Add the options for where to look. Without them: every place of places.yaml, the clusters of runs submitted from
    here, and this machine."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--place", type=a_name, metavar="NAME", help="read only the cluster and namespace of this place of places.yaml"
    )
    where.add_argument(
        "--context", type=a_name, metavar="NAME", help="read only the cluster of this kubeconfig context"
    )
    parser.add_argument(
        "--namespace", type=a_namespace, metavar="NAME", help="Kubernetes namespace; default: the place's, or default"
    )


def where_text(args: argparse.Namespace) -> str:
    """Return these options as they were given, for a command in a message."""
    given = {"--place": args.place, "--context": args.context, "--namespace": args.namespace}
    return shlex.join(part for name, value in given.items() if value is not None for part in (name, value))


def a_namespace(text: str) -> str:
    """Return the namespace; raise an error for an invalid one. An API server answers with an empty list for it, and `no
    runs` would be wrong. source: kubernetes.io/docs/concepts/overview/working-with-objects/names, RFC 1123 label."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", a_name(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no namespace: lower-case letters, digits and dashes, at most 63")
    return text

"""The arguments of `xsft secret`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_json

EPILOG = (
    "The value comes from --from-file, else from standard input (xsft secret create hf-token < FILE); trailing "
    "newlines are removed. It is not taken from the command line, which every user of the machine can read. Exit "
    "status 4 if the Secret exists; it is not overwritten."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("action", choices=("create",), help="action")
    parser.add_argument("name", metavar="NAME", help="the Secret's name, e.g. hf-token")
    parser.add_argument("--key", default="token", help="key in the Secret (default: %(default)s)")
    parser.add_argument("--from-file", metavar="FILE", help="read the value from a file instead of standard input")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--place", metavar="NAME", help="a place of places.yaml: its cluster and namespace")
    where.add_argument("--context", metavar="NAME", help="a kubeconfig context instead of a place")
    parser.add_argument("--namespace", metavar="NAME", help="Kubernetes namespace; default: the place's, or default")
    add_json(parser)
    parser.add_argument("stray", nargs="*", help=argparse.SUPPRESS)
    for option in ("--from-literal", "--value", "--token"):
        parser.add_argument(option, dest="literal", nargs="?", const="", help=argparse.SUPPRESS)

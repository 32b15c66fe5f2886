"""The arguments of `xsft place`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import a_name, add_json
from xsft.commands.arguments.runs import a_namespace

ACTIONS = {"show": "print a cluster's slices by type (total, free, held, queued, by whom), its quota and its versions"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Slices are counted from nodes, their use from Kueue's Workloads: what runs without Kueue is not seen. A slice"
        " with a node that is cordoned or not Ready is unavailable."
    )
    said = "; ".join(f"{name}: {what}" for name, what in ACTIONS.items())
    parser.add_argument("action", choices=tuple(ACTIONS), help=said)
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "name", nargs="?", type=a_name, metavar="PLACE", help="a place of places.yaml; not needed if it has only one"
    )
    where.add_argument("--context", type=a_name, metavar="NAME", help="the cluster of this kubeconfig context")
    parser.add_argument(
        "--namespace", type=a_namespace, metavar="NAME", help="namespace to read if the login may not read all"
    )
    add_json(parser)

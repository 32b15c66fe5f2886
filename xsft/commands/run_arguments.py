"""Arguments of the verbs about runs: which run, and where to look for it."""

from __future__ import annotations

import argparse


def add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="exact run name (or JobSet), as `xsft status` shows it")


def add_where(parser: argparse.ArgumentParser) -> None:
    """Without one: every place of places.yaml, the clusters of runs that were submitted from here, and this machine."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--place", metavar="NAME", help="only the cluster and namespace of this place of places.yaml")
    where.add_argument("--context", metavar="NAME", help="only the cluster of this kubeconfig context")
    parser.add_argument("--namespace", metavar="NAME", help="Kubernetes namespace; default: the place's, or default")

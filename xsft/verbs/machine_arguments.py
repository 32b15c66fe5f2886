"""Arguments of the verbs about this machine and clusters."""

from __future__ import annotations

import argparse

from xsft.environments import environments
from xsft.verbs.arguments import a_name, add_actions, add_json, add_set
from xsft.verbs.runs_arguments import a_namespace

PLACE_ACTIONS = {
    "show": "print a cluster's slices by type (total, free, held, queued, and by which runs), its quota and versions",
    "add": "find a cluster, verify it, and add it to places.yaml",
    "create": "print the xpk command that creates a cluster for a workload file; --yes runs it",
}
SHELLS = ("bash", "zsh", "fish", "tcsh")
RUNS, PLACES = "runs", "places"


def secret_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "The value is read from --from-file, else from standard input (xsft secret create hf-token < FILE). Trailing "
        "newlines are removed. A value on the command line is refused, because every user of the machine can read "
        "it. Exit status 4 if the Secret exists; it is not overwritten."
    )
    parser.add_argument("action", choices=("create",), help="create the Secret")
    parser.add_argument("name", metavar="NAME", help="the Secret's name, e.g. hf-token")
    parser.add_argument("--key", default="token", help="key in the Secret (default: %(default)s)")
    parser.add_argument("--from-file", metavar="FILE", help="read the value from a file instead of standard input")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--place", metavar="NAME", help="use the cluster and namespace of this place of places.yaml")
    where.add_argument("--context", metavar="NAME", help="use this kubeconfig context instead of a place")
    parser.add_argument(
        "--namespace", metavar="NAME", help="Kubernetes namespace (default: the place's; without a place, `default`)"
    )
    add_json(parser)
    parser.add_argument("stray", nargs="*", help=argparse.SUPPRESS)
    for option in ("--from-literal", "--value", "--token"):
        parser.add_argument(option, dest="literal", nargs="?", const="", help=argparse.SUPPRESS)


def place_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, PLACE_ACTIONS)
    show, add, create = (actions[name] for name in PLACE_ACTIONS)
    show.epilog = (
        "Slices are counted from nodes, and their use from Kueue's Workloads; runs without Kueue are not counted. A "
        "slice with a node that is cordoned or not Ready is unavailable."
    )
    show.add_argument(
        "name", nargs="?", type=a_name, metavar="PLACE", help="a place of places.yaml (default: its only place)"
    )
    _add_context(show, "read only this namespace, if you may not read all")
    add.epilog = (
        "Reads the kubeconfig and, if gcloud is installed, the project; at a terminal it asks for missing values. The "
        "rest of places.yaml does not change."
    )
    add.add_argument("name", nargs="?", type=a_name, metavar="PLACE", help="the new name (default: the cluster's name)")
    _add_context(add, "namespace of the runs")
    _add_values(add)
    create.epilog = (
        "Compares xpk's dry run with the workload, and creates nothing without --yes. With --yes, xpk runs on this "
        "machine with your gcloud login, for up to an hour. An existing cluster is refused. Your kubeconfig does not "
        "change."
    )
    create.add_argument("name", nargs="?", type=a_name, metavar="FILE", help="workload YAML")
    add_set(create)
    create.add_argument("--yes", action="store_true", help="run the command, which allocates TPU capacity")
    for action in actions.values():
        add_json(action)


def _add_context(parser: argparse.ArgumentParser, namespace: str) -> None:
    parser.add_argument("--context", type=a_name, metavar="NAME", help="use the cluster of this kubeconfig context")
    parser.add_argument("--namespace", type=a_namespace, metavar="NAME", help=namespace)


def doctor_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--place",
        type=a_name,
        metavar="NAME",
        help="check only this place of places.yaml: login, bucket, and what each mode needs; for each missing thing,"
        " print the command that adds it; exit status 3 if no mode can run",
    )
    parser.add_argument(
        "--impersonate",
        action="store_true",
        help="with --place: test the bucket with a token of the pods' Google service account (audit logs show this)",
    )
    add_json(parser)


def setup_arguments(parser: argparse.ArgumentParser) -> None:
    names, usual = ", ".join(environments.NAMES), " and ".join(environments.USUAL)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{names} (default: {usual})")
    parser.add_argument(
        "--verify", action="store_true", help="check all files and imports, and rebuild environments that fail"
    )
    add_json(parser)


def completion_arguments(parser: argparse.ArgumentParser) -> None:
    scripts = "print the completion script for this shell"
    names = f"{RUNS}: print the names of runs submitted from this machine; {PLACES}: print the names in places.yaml"
    parser.add_argument("shell", choices=(*SHELLS, RUNS, PLACES), help=f"{scripts}; {names}")


def _add_values(parser: argparse.ArgumentParser) -> None:
    for option, what in (
        ("--project", "Google Cloud project (default: gcloud's current project)"),
        ("--zone", "zone or region of the cluster"),
        ("--cluster", "GKE cluster"),
        ("--queue", "Kueue LocalQueue (default: the only one of the namespace, else multislice-queue)"),
        ("--output", "bucket and folder for runs, e.g. gs://my-bucket/runs"),
        ("--registry", "Artifact Registry repository, e.g. us-docker.pkg.dev/my-project/xsft"),
        ("--proxy-image", "Pathways proxy image"),
        ("--server-image", "Pathways server image"),
        ("--scratch", "bucket and folder for Pathways' temporary files"),
    ):
        parser.add_argument(option, type=a_name, metavar="VALUE", help=what)
    parser.add_argument("--replace", action="store_true", help="replace an existing place of that name")
    parser.add_argument("--print", dest="write", action="store_false", help="print the place; write nothing")
    parser.add_argument("--offline", action="store_true", help="use only the options; read and verify nothing")

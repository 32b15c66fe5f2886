"""Arguments of the verbs about this machine and clusters."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import a_name, add_json, add_set
from xsft.commands.arguments.runs import a_namespace
from xsft.effects.environments import environments

PLACE_ACTIONS = {
    "show": "print a cluster's slices by type (total, free, held, queued, by whom), its quota and its versions",
    "add": "find a cluster, verify it, and add it to places.yaml",
    "create": "print the line of xpk that makes a cluster for the workload PLACE, a file, audited in xpk's dry run;"
    " --yes runs it",
}
SHELLS = ("bash", "zsh", "fish", "tcsh")
RUNS, PLACES = "runs", "places"


def secret_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "The value comes from --from-file, else from standard input (xsft secret create hf-token < FILE); trailing "
        "newlines are removed. It is not taken from the command line, which every user of the machine can read. "
        "Exit status 4 if the Secret exists; it is not overwritten."
    )
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


def place_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "show: slices are counted from nodes, their use from Kueue's Workloads: what runs without Kueue is not seen. A"
        " slice with a node that is cordoned or not Ready is unavailable. add: reads the kubeconfig, and the project by"
        " gcloud if it is installed; asks for the rest at a terminal. Everything else in places.yaml stays as it is."
        " create: executes nothing without --yes. With it, xpk runs here with your gcloud login, for up to an hour; a"
        " cluster that exists is refused, and your kubeconfig stays as it is."
    )
    said = "; ".join(f"{name}: {what}" for name, what in PLACE_ACTIONS.items())
    parser.add_argument("action", choices=tuple(PLACE_ACTIONS), help=said)
    parser.add_argument(
        "name",
        nargs="?",
        type=a_name,
        metavar="PLACE",
        help="show: a place of places.yaml, not needed if it has only one; add: the new name (default: the cluster's);"
        " create: a workload YAML",
    )
    parser.add_argument("--context", type=a_name, metavar="NAME", help="the cluster of this kubeconfig context")
    parser.add_argument(
        "--namespace", type=a_namespace, metavar="NAME", help="namespace of the runs; show: read if not all may be read"
    )
    add_set(parser)
    parser.add_argument("--yes", action="store_true", help="create: run the printed line, which takes TPU capacity")
    _add_values(parser.add_argument_group("add"))
    add_json(parser)


def doctor_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--place",
        type=a_name,
        metavar="NAME",
        help="check this place of places.yaml alone: its login, its bucket, and what each mode still needs there, with"
        " the command that provides it; exit status 3 if no mode can run",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def setup_arguments(parser: argparse.ArgumentParser) -> None:
    names, usual = ", ".join(environments.NAMES), " and ".join(environments.USUAL)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{names}; {usual} if none is named")
    parser.add_argument("--verify", action="store_true", help="check every file and import, and rebuild what fails")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def completion_arguments(parser: argparse.ArgumentParser) -> None:
    told = f"print the completion script of this shell; {RUNS}: names of runs submitted from this machine;"
    parser.add_argument("shell", choices=(*SHELLS, RUNS, PLACES), help=f"{told} {PLACES}: names in places.yaml")


def _add_values(group: argparse._ArgumentGroup) -> None:
    for option, what in (
        ("--project", "Google Cloud project (default: gcloud's)"),
        ("--zone", "zone or region of the cluster"),
        ("--cluster", "GKE cluster"),
        ("--queue", "Kueue LocalQueue (default: the namespace's only one, else multislice-queue)"),
        ("--output", "bucket and folder for runs, e.g. gs://my-bucket/runs"),
        ("--registry", "Artifact Registry repository, e.g. us-docker.pkg.dev/my-project/xsft"),
        ("--proxy-image", "Pathways proxy image"),
        ("--server-image", "Pathways server image"),
        ("--scratch", "bucket and folder for Pathways' temporary files"),
    ):
        group.add_argument(option, type=a_name, metavar="VALUE", help=what)
    group.add_argument("--replace", action="store_true", help="replace the lines of a place of that name")
    group.add_argument("--print", action="store_true", help="print the place and write nothing")
    group.add_argument("--offline", action="store_true", help="find and verify nothing; use the options alone")

"""`xsft secret create NAME`: make the Kubernetes Secret that a workload names. Its value comes from stdin or a file,
never from argv.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from xsft.commands.arguments import add_json

if TYPE_CHECKING:
    from xsft.effects.cluster.cluster import Cluster
    from xsft.errors import UsageError

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
EPILOG = (
    "The value comes from --from-file, else from standard input (xsft secret create hf-token < FILE); line ends at its"
    " end are left out. On the command line everybody on the machine could read it. Exit status 4 where the Secret"
    " exists: nothing is ever overwritten."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("action", choices=("create",), help="what to do with the Secret")
    parser.add_argument("name", metavar="NAME", help="the Secret's name, e.g. hf-token")
    parser.add_argument("--key", default="token", help="its key (default: %(default)s)")
    parser.add_argument("--from-file", metavar="FILE", help="read the value from a file instead of standard input")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--place", metavar="NAME", help="a place of places.yaml: its cluster and namespace")
    where.add_argument("--context", metavar="NAME", help="a kubeconfig context instead of a place")
    parser.add_argument("--namespace", metavar="NAME", help="Kubernetes namespace; default: the place's, or default")
    add_json(parser)
    parser.add_argument("stray", nargs="*", help=argparse.SUPPRESS)
    for option in ("--from-literal", "--value", "--token"):
        parser.add_argument(option, dest="literal", nargs="?", const="", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    _refuse_values(args)
    _refuse_names(args)
    cluster, namespace = _cluster(args)
    value = _value(args)
    from xsft.effects.cluster.create import Created

    outcome = cluster.create_secret(name=args.name, namespace=namespace, data={args.key: value})
    if not isinstance(outcome, Created):
        raise _exists(args, namespace=namespace, context=cluster.context)
    _report(args, namespace=namespace, context=cluster.context)
    return 0


def _refuse_values(args: argparse.Namespace) -> None:
    """Whatever could be the value, without showing it."""
    from xsft.errors import UsageError
    from xsft.spec.secrets import looks_secret

    texts = [text for text in vars(args).values() if isinstance(text, str)]
    if args.stray or args.literal is not None or any(map(looks_secret, texts)):
        raise UsageError(
            "A value was given on the command line, where everybody on this machine can read it. It is not used and not"
            " shown here.",
            fix="Pipe it in (xsft secret create NAME < FILE) or give --from-file FILE; renew a token that was shown.",
            id="secret-on-command-line",
        )


def _refuse_names(args: argparse.Namespace) -> None:
    if not NAME.fullmatch(args.name):
        raise _malformed("The Secret's name", "lower-case letters, digits and dashes, at most 63: hf-token")
    if not KEY.fullmatch(args.key):
        raise _malformed("The key", "letters, digits, dots, dashes and underscores, at most 253: token")
    if args.namespace is not None and not NAME.fullmatch(args.namespace):
        raise _malformed("The namespace", "lower-case letters, digits and dashes, at most 63: default")


def _malformed(what: str, allowed: str) -> UsageError:
    """Not quoted: a value in the wrong place is a value all the same."""
    from xsft.errors import UsageError

    return UsageError(f"{what} does not have the form of one.", fix=f"Write {allowed}.")


def _cluster(args: argparse.Namespace) -> tuple[Cluster, str]:
    """The cluster and the namespace in it."""
    from xsft.effects.cluster.cluster import connect, connect_context
    from xsft.effects.inputs.places import load_places
    from xsft.errors import UsageError

    if args.context:
        return connect_context(args.context), args.namespace or "default"
    places, file = load_places(Path.cwd())
    place = places.get(args.place or "")
    if place is None:
        known = f"Known: {', '.join(sorted(places)) or 'none'} ({file or 'no places.yaml'})."
        said = f"There is no place {args.place}." if args.place else "It is not said which cluster the Secret is for."
        raise UsageError(f"{said} {known}", fix="Give --place NAME, or --context NAME of your kubeconfig.")
    return connect(place), args.namespace or place.namespace


def _value(args: argparse.Namespace) -> bytes:
    from xsft.effects.machine.secretvalue import read_secret_file, read_secret_stdin

    return read_secret_file(Path(args.from_file)) if args.from_file else read_secret_stdin(sys.stdin.buffer)


def _exists(args: argparse.Namespace, *, namespace: str, context: str) -> Exception:
    from xsft.errors import Refused

    return Refused(
        f"The Secret {args.name} exists in the namespace {namespace} (context {context}); nothing is overwritten.",
        fix=f"Take another name, or remove it yourself: kubectl --context {context} -n {namespace} delete secret"
        f" {args.name}",
        id="secret-exists",
    )


def _report(args: argparse.Namespace, *, namespace: str, context: str) -> None:
    from xsft.commands.documents import print_json

    if args.json:
        made = {"name": args.name, "key": args.key, "namespace": namespace, "context": context}
        print_json("secret", {"action": "created", **made})
        return
    print(f"created the Secret {args.name}, key {args.key}, in the namespace {namespace} (context {context})")
    print(f"in a workload: secrets: {{hf_token: {{secret: {args.name}, key: {args.key}}}}}")

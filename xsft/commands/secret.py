"""`xsft secret create NAME`: create the Kubernetes Secret that a workload names. Its value comes from stdin or a file,
never from argv."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from xsft.effects.cluster.cluster import Cluster, connect
from xsft.effects.cluster.create import Created
from xsft.effects.inputs.places import load_places
from xsft.effects.machine.secretvalue import read_secret_file, read_secret_stdin
from xsft.errors import Refused, UsageError
from xsft.records.where import ClusterAddress
from xsft.screen.documents import print_json
from xsft.spec.secrets import looks_secret

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


def run(args: argparse.Namespace) -> int:
    _refuse_values(args)
    _refuse_names(args)
    cluster, namespace = _chosen_cluster(args)
    value = read_secret_file(Path(args.from_file)) if args.from_file else read_secret_stdin(sys.stdin.buffer)
    outcome = cluster.create_secret(name=args.name, namespace=namespace, data={args.key: value})
    if not isinstance(outcome, Created):
        raise _exists(args, namespace=namespace, context=cluster.context)
    _report_secret(args, namespace=namespace, context=cluster.context)
    return 0


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


def _refuse_names(args: argparse.Namespace) -> None:
    if not NAME.fullmatch(args.name):
        raise _malformed("The Secret's name", "lower-case letters, digits and dashes, at most 63: hf-token")
    if not KEY.fullmatch(args.key):
        raise _malformed("The key", "letters, digits, dots, dashes and underscores, at most 253: token")
    if args.namespace is not None and not NAME.fullmatch(args.namespace):
        raise _malformed("The namespace", "lower-case letters, digits and dashes, at most 63: default")


def _malformed(what: str, allowed: str) -> UsageError:
    """Return the error for a malformed argument. The argument is not quoted, because it may be the secret value."""
    return UsageError(f"{what} is not valid.", fix=f"Write {allowed}.")


def _chosen_cluster(args: argparse.Namespace) -> tuple[Cluster, str]:
    """Return the cluster and the namespace in it."""
    if args.context:
        return connect(ClusterAddress(context=args.context)), args.namespace or "default"
    places, file = load_places(Path.cwd())
    place = places.get(args.place or "")
    if place is None:
        known = f"Known places: {', '.join(sorted(places)) or 'none'} ({file or 'no places.yaml'})."
        message = f"Place {args.place} was not found." if args.place else "No cluster given for the Secret."
        raise UsageError(f"{message} {known}", fix="Give --place NAME, or --context NAME of your kubeconfig.")
    return connect(place), args.namespace or place.namespace


def _exists(args: argparse.Namespace, *, namespace: str, context: str) -> Exception:
    return Refused(
        f"The Secret {args.name} already exists in namespace {namespace} (context {context}); it was not overwritten.",
        fix=f"Use another name, or delete it yourself: kubectl --context {context} -n {namespace} delete secret "
        f"{args.name}",
        id="secret-exists",
    )


def _report_secret(args: argparse.Namespace, *, namespace: str, context: str) -> None:
    if args.json:
        made = {"name": args.name, "key": args.key, "namespace": namespace, "context": context}
        print_json("secret", {"action": "created", **made})
        return
    print(f"created the Secret {args.name}, key {args.key}, in namespace {namespace} (context {context})")
    print(f"in a workload: secrets: {{hf_token: {{secret: {args.name}, key: {args.key}}}}}")

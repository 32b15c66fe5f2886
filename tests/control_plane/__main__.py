"""python -m tests.control_plane up|down|status|build: a real control plane on this machine, which runs until `down`."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from textwrap import indent

import yaml

from tests.control_plane import build
from tests.control_plane.api import Cluster, StartFailed
from tests.control_plane.components import ORDER
from tests.control_plane.nodes import DEFAULT, Slices
from tests.control_plane.record import load
from tests.control_plane.start import up
from tests.control_plane.tools import version
from xsft.base.errors import EnvironmentMissing, XsftError
from xsft.machine.filelock import exclusive
from xsft.machine.paths import own_cache
from xsft.spec.place import DEFAULT_QUEUE
from xsft.verbs.document import show_progress

USUAL_NAME = "xsft"
"""Of `make cluster` and `make cluster-down`."""


def main(arguments: list[str]) -> int:
    parsed = _parser().parse_args(arguments)
    try:
        return int(parsed.do(parsed))
    except StartFailed as problem:
        print(f"error: the cluster did not start: {problem}", file=sys.stderr)
        return 1
    except XsftError as problem:
        print(f"error: {problem.message}\n  fix: {problem.fix}", file=sys.stderr)
        return problem.exit_status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.control_plane", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    for name, do, about in (
        ("up", _up, "start one, building its programs first where they are missing, and tell how to use it"),
        ("down", _down, "stop it; nothing of it stays"),
        ("status", _status, "say what runs"),
        ("build", _build, "build its programs and start nothing"),
    ):
        verb = verbs.add_parser(name, help=about)
        verb.set_defaults(do=do)
        if name == "build":
            verb.add_argument("--if-possible", action="store_true", help="without Go, warn and be content")
        else:
            verb.add_argument(
                "--name", default=USUAL_NAME, type=_name, help="which cluster, and its kubeconfig context (%(default)s)"
            )
        if name == "up":
            usual = [f"{command_row.count}x{command_row.tpu_type}" for command_row in DEFAULT]
            verb.add_argument(
                "--slices",
                nargs="*",
                type=_slices,
                default=DEFAULT,
                metavar="NxTYPE",
                help=f"TPU slices ({' '.join(usual)})",
            )
    return parser


def _slices(text: str) -> Slices:
    """`2xv6e-8`. Raises ArgumentTypeError, whose words argparse shows."""
    count, _, tpu_type = text.partition("x")
    if not re.fullmatch("[1-9][0-9]?", count):
        raise argparse.ArgumentTypeError(f"{text!r} is not such as 2xv6e-8, at most 99 slices")
    slices = Slices(tpu_type=tpu_type, count=int(count))
    try:
        _ = slices.shape
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem
    return slices


def _name(text: str) -> str:
    if not re.fullmatch("[a-z0-9][a-z0-9-]{0,39}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name: lower case letters, digits and -, at most 40")
    return text


def _up(given: argparse.Namespace) -> int:
    with show_progress("cluster") as progress, _alone(progress):
        tools = build.ensure(progress=progress)
        folder = _folder(given.name)
        cluster = load(folder)
        if cluster is None or not _whole(cluster):
            _clear(folder)
            cluster = up(folder, tools=tools, name=given.name, progress=progress, slices=tuple(given.slices))
    print(_how_to_use(cluster))
    return 0


def _down(given: argparse.Namespace) -> int:
    with show_progress("cluster") as progress, _alone(progress):
        was = _folder(given.name).exists()
        _clear(_folder(given.name))
    print(f"cluster {given.name}: {'stopped, nothing of it is left' if was else 'there is none'}")
    return 0


def _status(given: argparse.Namespace) -> int:
    """Exit status 1 where something that should run does not."""
    cluster = load(_folder(given.name))
    if cluster is None:
        print(f"cluster {given.name}: there is none")
        return 1
    print(f"cluster {given.name}: {cluster.server}, {cluster.folder}")
    for component in ORDER:
        process = cluster.processes.get(component)
        words = (
            f"pid {process.pid}" if process and process.alive else f"NOT RUNNING, see {cluster.spawner.log(component)}"
        )
        print(f"  {component:24} {words}")
    return 0 if _whole(cluster) else 1


def _build(given: argparse.Namespace) -> int:
    with show_progress("cluster") as progress:
        try:
            build.ensure(progress=progress)
        except EnvironmentMissing as problem:
            if not given.if_possible:
                raise
            progress(f"WARNING: tests that need a real control plane will be counted as not run: {problem.message}")
    return 0


def _alone(progress: Callable[[str], None]) -> AbstractContextManager[None]:
    """One `up` or `down` at a time."""
    return exclusive(own_cache() / "clusters.lock", waiting=lambda: progress("waiting for another `up` or `down`"))


def _folder(name: str) -> Path:
    return own_cache() / "clusters" / name


def _whole(cluster: Cluster) -> bool:
    alive = cluster.alive()
    return all(alive.get(component) for component in ORDER)


def _clear(folder: Path) -> None:
    """Whatever was started there ends, also where it was only half started."""
    if cluster := load(folder):
        cluster.down()
    shutil.rmtree(folder, ignore_errors=True)


def _how_to_use(cluster: Cluster) -> str:
    place = yaml.safe_dump({"place": {"context": cluster.context, "namespace": "default", "queue": DEFAULT_QUEUE}})
    versions = ", ".join(
        f"{name} {version('control', package)}"
        for name, package in (
            ("Kubernetes", "k8s.io/kubernetes"),
            ("JobSet", "sigs.k8s.io/jobset"),
            ("Kueue", "sigs.k8s.io/kueue"),
        )
    )
    return f"""\
cluster {cluster.name} is up: {versions}
  export KUBECONFIG={cluster.kubeconfig}    (context {cluster.context})
  kubectl    {cluster.layout.tools.program("kubectl")}
  logs       {cluster.spawner.log("COMPONENT")}
  pods       end, fail and wait by annotations: tests/control_plane/stages.yaml
  stop it    {_stop(cluster.name)}

In a workload, beside `output: gs://…`:
{indent(place, "  ")}"""


def _stop(name: str) -> str:
    return "make cluster-down" if name == USUAL_NAME else f".venv/bin/python -m tests.control_plane down --name {name}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

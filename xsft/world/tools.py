"""The third-party tools that some verbs use: which are installed, which version, and how to install the others."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import EnvironmentMissing, TimedOut
from xsft.base.lenient import parse_json
from xsft.image.build import ALSO, INSTALL_BUILDX, clients_of
from xsft.image.failures import PERMIT, START
from xsft.machine import process
from xsft.machine.parallel import all_answers
from xsft.machine.process import ProcessResult

TOOL_TIMEOUT_S = 20.0
LATE = 124
"""The exit status for a timeout, as in coreutils' `timeout`."""


class ToolCheck(Struct, frozen=True, kw_only=True):
    """The result of one check of this machine."""

    id: str
    """Stable, e.g. `xpk-environment`."""
    ok: bool
    required: bool
    """Whether planning and training on this machine need it; other tools are needed only for `needed_for`."""
    version: str
    """Empty if it has none or it could not be read."""
    needed_for: str
    detail: str
    fix: str
    """The command that fixes it; in JSON empty if it is ok."""

    @property
    def next_step(self) -> str:
        return "" if self.ok else self.fix


RunTool = Callable[[tuple[str, ...]], ProcessResult | None]
"""Runs a tool. Returns None if it cannot be started; the status is `LATE` if it does not answer in time."""


def tool_checks(run: RunTool) -> list[ToolCheck]:
    """Return the checks, in the order of the table; they run in parallel, because gcloud alone takes a second."""
    clients = (partial(_client, argv=argv, needed_for=need, fix=fix) for argv, need, fix in CLIENTS)
    checks: tuple[Callable[[RunTool], ToolCheck], ...] = (_pid_namespace, *clients, _docker_build, _docker_engine)
    return all_answers([partial(_check_in_time, check, run) for check in checks], threads=4)


CLIENTS = (
    (
        ("kubectl", "version", "--client", "-o", "json"),
        "submit --through-xpk",
        "https://kubernetes.io/docs/tasks/tools, or gcloud components install kubectl",
    ),
    (("gcloud", "version", "--format=json"), "clusters on GKE", "https://cloud.google.com/sdk/docs/install"),
    (
        ("gke-gcloud-auth-plugin", "--version"),
        "the login to GKE",
        "gcloud components install gke-gcloud-auth-plugin",
    ),
    (("docker", "--version"), "building and pushing images", "https://docs.docker.com/engine/install"),
)
"""Command that prints the version, what needs the tool, how to install it."""


def _check_in_time(check: Callable[[RunTool], ToolCheck], run: RunTool) -> ToolCheck:
    """Run the check. A tool that did not answer in time is reported as late, not as missing."""
    late: list[tuple[str, ...]] = []

    def run_and_note(argv: tuple[str, ...]) -> ProcessResult | None:
        done = run(argv)
        if done is not None and done.status == LATE:
            late.append(argv)
        return done

    row = check(run_and_note)
    if row.ok or not late:
        return row
    return replace(
        row,
        detail=f"{late[0][0]} timed out: no answer within {TOOL_TIMEOUT_S:g} s",
        fix=f"Try again when the machine is less busy; run `{shlex.join(late[0])}` to see whether it answers.",
    )


def run_tool(
    argv: tuple[str, ...], *, env: Mapping[str, str], timeout_s: float = TOOL_TIMEOUT_S
) -> ProcessResult | None:
    """Run a tool. Returns None if it cannot be started, `LATE` if it does not answer in time."""
    try:
        return process.run(argv, env=env, timeout_s=timeout_s)
    except EnvironmentMissing:
        return None
    except TimedOut:
        return ProcessResult(argv=argv, status=LATE, stdout="", stderr="")


def _pid_namespace(run: RunTool) -> ToolCheck:
    options = ("--pid", "--fork", "--mount-proc", "--kill-child", "true")
    ways = {"as root": options, "with a user namespace": ("--user", "--map-root-user", *options)}
    works = next((way for way, argv in ways.items() if (done := run(("unshare", *argv))) and done.ok), "")
    detail = "no PID namespace here: MaxText's data loader kills orphaned multiprocessing processes of other programs"
    if works:
        detail = f"unshare works {works}"
    return ToolCheck(
        id="pid-namespace",
        ok=bool(works),
        required=False,
        version="",
        needed_for="isolating a local run",
        detail=detail,
        fix="install util-linux and allow user namespaces (sysctl kernel.unprivileged_userns_clone=1), or run as root",
    )


def _docker_build(run: RunTool) -> ToolCheck:
    """Check docker's BuildKit."""
    clients = clients_of(("docker", *(f"{folder}/docker" for folder in ALSO)), lambda argv: _output_of(run(argv)))
    builds = next((client.path for client in clients if client.builds), "")
    return ToolCheck(
        id="docker-buildkit",
        ok=bool(builds),
        required=False,
        version="",
        needed_for="building images",
        detail=f"{builds} can build" if builds else "no docker command here can use BuildKit",
        fix=INSTALL_BUILDX,
    )


def _docker_engine(run: RunTool) -> ToolCheck:
    done = run(("docker", "version", "--format", "{{json .Server}}"))
    server = parse_json(_output_of(done))
    return ToolCheck(
        id="docker-engine",
        ok=isinstance(server, dict),
        required=False,
        version=server.get("Version", "") if isinstance(server, dict) else "",
        needed_for="building images, and local runs in one",
        detail="answers" if server else _first_line(done) or "docker is not installed",
        fix=PERMIT if "permission denied" in _first_line(done).lower() else START,
    )


def _client(run: RunTool, *, argv: tuple[str, ...], needed_for: str, fix: str) -> ToolCheck:
    done = run(argv)
    return ToolCheck(
        id=argv[0],
        ok=done is not None and done.ok,
        required=False,
        version=version_of(done),
        needed_for=needed_for,
        detail=(shutil.which(argv[0]) or "") if done and done.ok else _first_line(done) or "not found on PATH",
        fix=fix,
    )


def version_of(done: ProcessResult | None) -> str:
    """Return the first string in a tool's output that looks like a version."""
    match = re.search(r"\bv?(\d+(?:\.\d+)+)", _output_of(done))
    return match[1] if match else ""


def _output_of(done: ProcessResult | None) -> str:
    return done.stdout if done and done.ok else ""


def _first_line(done: ProcessResult | None) -> str:
    return next(iter((done.stderr or done.stdout).strip().splitlines()), "") if done else ""

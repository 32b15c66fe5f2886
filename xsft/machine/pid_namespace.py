"""A separate PID namespace for the trainer, if the system allows one.

MaxText ends every process of the machine that looks like a lost data worker, of any user: one with
`multiprocessing.spawn` or `multiprocessing.resource_tracker` in its command line and PID 1 as its parent. source:
maxtext@0.2.5 input_pipeline/multihost_dataloading.py _cleanup_orphaned_multiprocessing_processes. In its own namespace
the trainer sees no other process, and as PID 1 it skips that step.

MaxText also writes /dev/termination-log on a configuration error (maxtext@0.2.5 configs/pyconfig.py). In the namespace
that file is /dev/null; if it does not exist, /dev is read-only.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

from xsft.base.errors import EnvironmentMissing, Refused, TimedOut
from xsft.base.problems import Problem, warning
from xsft.machine.process import ProcessResult, own_environment, run

MARKS = ("multiprocessing.spawn", "multiprocessing.resource_tracker")
SHIELD = (
    "sh",
    "-c",
    '{ mount --bind /dev/null /dev/termination-log || mount -o remount,bind,ro /dev; } 2>/dev/null; exec "$@"',
    "sh",
)
"""argv is passed as arguments of the shell, never as part of its text. If neither mount works, the file is written."""

Probe = Callable[[tuple[str, ...]], ProcessResult]


class Containment(Struct, frozen=True, kw_only=True):
    """The way in which the trainer is started on this machine."""

    prefix: tuple[str, ...]
    """Words in front of the trainer's argv."""
    private: bool
    """Whether the trainer gets a PID namespace."""
    why_not: str = ""
    needed: bool = True
    """False if there is no /proc in which MaxText could find processes, as on macOS."""

    @property
    def warnings(self) -> tuple[Problem, ...]:
        if self.private or not self.needed:
            return ()
        message = (
            "MaxText runs without its own PID namespace here, and kills orphaned multiprocessing workers of your "
            f"other programs on this machine ({self.why_not})."
        )
        fix = (
            "Allow user namespaces (sysctl user.max_user_namespaces and kernel.apparmor_restrict_unprivileged_userns), "
            "or run as root."
        )
        return (warning("no-pid-namespace", "target", message, fix),)


CONTAINED = Containment(prefix=(), private=True)
"""A container has its own PID namespace."""


@cache
def detect() -> Containment:
    """Return the containment that works on this machine, by trying it once."""
    return containment(system=platform.system(), root=os.geteuid() == 0, probe=_probe, which=shutil.which)


def containment(
    *,
    system: str,
    root: bool,
    probe: Probe,
    which: Callable[[str], str | None],
) -> Containment:
    """Return the containment that works; `probe` runs an argv, `which` finds a program."""
    if system != "Linux":
        return Containment(prefix=(), private=False, why_not=f"{system} has no PID namespaces", needed=False)
    # the trainer dies with xsft, even if xsft is killed (prctl PR_SET_PDEATHSIG)
    tied = ("setpriv", "--pdeathsig", "KILL", "--") if which("setpriv") else ()
    if which("unshare") is None:
        return Containment(prefix=tied, private=False, why_not="`unshare` was not found; it is part of util-linux")
    options = ("--pid", "--fork", "--mount-proc", "--kill-child", "--")
    commands: list[tuple[str, ...]] = [("unshare", "--user", "--map-root-user", *options)]
    if root:
        commands.insert(0, ("unshare", *options))  # needs no user namespace, which a kernel may forbid
    why_not = ""
    for prefix in commands:
        done = probe((*prefix, "sh", "-c", "test $$ = 1 && test -r /proc/1/comm"))
        if done.ok:
            return Containment(prefix=(*tied, *prefix, *SHIELD), private=True)
        why_not = why_not or done.stderr.strip().rpartition("\n")[2]
    return Containment(prefix=tied, private=False, why_not=why_not or "`unshare --pid` failed")


def refuse_where_harmful(containment: Containment, *, proc: Path = Path("/proc"), uid: int | None = None) -> None:
    """Raise Refused if, without a namespace, the trainer would end a process that is running here now."""
    if containment.private or not containment.needed:
        return
    if victims := tuple(orphans(proc, uid=os.geteuid() if uid is None else uid)):
        named = ", ".join(str(pid) for pid in victims)
        raise Refused(
            f"MaxText would kill processes of other programs: {named} (orphaned multiprocessing workers), and no "
            f"PID namespace is available to prevent it ({containment.why_not})",
            fix=(
                "end them yourself if they are yours and no longer needed, or run on a machine where `unshare "
                "--user --pid --fork true` works"
            ),
        )


def orphans(proc: Path, *, uid: int) -> Iterator[int]:
    """Yield the processes that MaxText would end: of this user, or of any user if this one is root."""
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="ignore")
            status = _process_status(entry / "status")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if any(mark in command for mark in MARKS) and status["PPid"] == 1 and uid in {0, status["Uid"]}:
            yield int(entry.name)


def _probe(argv: tuple[str, ...]) -> ProcessResult:
    try:
        return run(argv, env=own_environment(LC_ALL="C"), timeout_s=10)
    except (EnvironmentMissing, TimedOut) as problem:
        return ProcessResult(argv=argv, status=1, stdout="", stderr=problem.message)


def _process_status(path: Path) -> Mapping[str, int]:
    pairs = (line.partition(":") for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    return {name: int(value.split()[0]) for name, _, value in pairs if name in {"PPid", "Uid"}}

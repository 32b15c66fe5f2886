from __future__ import annotations

from pathlib import Path

import pytest

from xsft.base.errors import Refused
from xsft.machine.pid_namespace import SHIELD, Containment, containment, detect, orphans, refuse_where_harmful
from xsft.machine.process import ProcessResult, own_environment, run

TOOLS = {"unshare": "/bin/unshare", "setpriv": "/bin/setpriv"}


def answer(argv: tuple[str, ...], *, works: bool) -> ProcessResult:
    return ProcessResult(
        argv=argv, status=0 if works else 1, stdout="", stderr="" if works else "a\nunshare: not permitted\n"
    )


def found(
    *, root: bool = True, works: str = "root user", tools: dict[str, str] = TOOLS, system: str = "Linux"
) -> Containment:
    return containment(
        system=system,
        root=root,
        probe=lambda argv: answer(argv, works=("user" if "--user" in argv else "root") in works),
        which=tools.get,
    )


def test_root_needs_no_user_namespace() -> None:
    alone = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "--")
    assert found() == Containment(prefix=("setpriv", "--pdeathsig", "KILL", "--", *alone, *SHIELD), private=True)


@pytest.mark.parametrize("root", [True, False])
def test_a_user_namespace_is_used_where_only_that_works(root: bool) -> None:
    got = found(root=root, works="user")
    assert got.private
    assert got.prefix[4:7] == ("unshare", "--user", "--map-root-user")


def test_a_system_without_namespaces_gets_a_warning_with_its_reason() -> None:
    got = found(works="")
    (warned,) = got.warnings
    assert not got.private
    assert (warned.id, warned.severity) == ("no-pid-namespace", "warning")
    assert "unshare: not permitted" in warned.message
    assert got.prefix == ("setpriv", "--pdeathsig", "KILL", "--")


def test_a_system_without_util_linux_gets_a_warning() -> None:
    got = found(tools={})
    assert (got.prefix, got.private) == ((), False)
    assert "util-linux" in got.warnings[0].message


def test_macos_gets_no_warning() -> None:
    assert found(system="Darwin").warnings == ()


def process(proc: Path, pid: int, *, command: str, parent: int, uid: int) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "cmdline").write_bytes(command.encode().replace(b" ", b"\0"))
    (proc / str(pid) / "status").write_text(f"Name:\tpython\nPPid:\t{parent}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    process(tmp_path, 10, command="python -c from multiprocessing.spawn import x", parent=1, uid=1000)
    process(tmp_path, 11, command="python -c from multiprocessing.resource_tracker import x", parent=1, uid=2000)
    process(tmp_path, 12, command="python -c from multiprocessing.spawn import x", parent=10, uid=1000)
    process(tmp_path, 13, command="python serve.py", parent=1, uid=1000)
    (tmp_path / "14").mkdir()  # ended while we looked
    (tmp_path / "meminfo").touch()
    return tmp_path


def test_orphans_are_the_processes_that_maxtext_would_kill(proc: Path) -> None:
    assert set(orphans(proc, uid=0)) == {10, 11}
    assert set(orphans(proc, uid=1000)) == {10}
    assert set(orphans(proc, uid=3000)) == set()


def test_without_a_namespace_a_run_that_would_kill_processes_is_refused(
    proc: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    open_ = Containment(prefix=(), private=False, why_not="not permitted")
    with pytest.raises(Refused, match="10"):
        refuse_where_harmful(open_, proc=proc, uid=1000)
    refuse_where_harmful(open_, proc=tmp_path_factory.mktemp("empty"), uid=1000)
    refuse_where_harmful(Containment(prefix=(), private=True), proc=proc, uid=1000)


def test_the_pid_namespace_hides_other_processes() -> None:
    real = detect()
    if not real.private:
        pytest.skip(f"this machine allows no PID namespace: {real.why_not}")
    done = run((*real.prefix, "sh", "-c", "echo $$; cd /proc; ls -d [0-9]*"), env=own_environment())
    first, *processes = done.stdout.split()
    assert (done.status, first) == (0, "1")
    assert 1 <= len(processes) <= 3


def test_the_termination_log_of_this_machine_is_unchanged() -> None:
    real, log = detect(), Path("/dev/termination-log")
    if not real.private:
        pytest.skip(f"this machine allows no PID namespace: {real.why_not}")
    before = log.read_bytes() if log.exists() else None
    done = run(
        (*real.prefix, "sh", "-c", f"echo broken > {log}; echo fine > /dev/null; touch /dev/shm/."),
        env=own_environment(),
    )
    assert (log.read_bytes() if log.exists() else None) == before
    assert done.ok

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.replacing import replace
from tests.wheels import Shop
from xsft.environments import envbuild
from xsft.machine.process import ProcessResult
from xsft.world import doctor
from xsft.world.doctor import CheckedMachine
from xsft.world.tools import LATE, ToolCheck, run_tool

ANSWERS = {
    "uv": "uv 0.9.1 (linux)",
    "unshare": "",
    "kubectl": '{"clientVersion": {"major": "1", "gitVersion": "v1.32.4-dispatcher"}}',
    "gcloud": '{"Google Cloud SDK": "528.0.0"}',
    "gke-gcloud-auth-plugin": "Kubernetes v1.30.0+03fcd0f",
    "docker": "Docker version 28.2.2, build e6534b4",
    "docker-engine": '{"Version": "28.2.2"}',
    "docker-buildkit": "github.com/docker/buildx v0.19.3",
}


def answers(argv: tuple[str, ...], *, but: dict[str, ProcessResult | None]) -> ProcessResult | None:
    """Return the answers of a machine with every tool; `but` names tools that differ."""
    named = {("version",): "docker-engine", ("buildx",): "docker-buildkit"}
    program = Path(argv[0]).name
    key = named.get(argv[1:2], program) if program == "docker" else program
    if key in but:
        return but[key]
    return ProcessResult(argv=argv, status=0, stdout=ANSWERS[key], stderr="")


def failed(words: str) -> ProcessResult:
    return ProcessResult(argv=("x",), status=1, stdout="", stderr=words)


@pytest.fixture
def machine(tmp_path: Path) -> CheckedMachine:
    """A machine with every tool and room, and no environment built."""
    (tmp_path / "shop").mkdir()
    shop = Shop.open(tmp_path / "shop")
    return CheckedMachine(
        run=lambda argv: answers(argv, but={}),
        place=shop.place(tmp_path),
        specs=(shop.spec(),),
        free_bytes=lambda _: 100 * 2**30,
        python=(3, 12, 1),
    )


def checks(machine: CheckedMachine) -> dict[str, ToolCheck]:
    return {check.id: check for check in doctor.examine(machine)}


@pytest.mark.loopback
def test_a_complete_machine_is_ok_with_all_versions(machine: CheckedMachine) -> None:
    envbuild.build(machine.specs[0], machine.place, progress=lambda _: None, verify=False)
    checks_by_name = checks(machine)
    assert doctor.is_ok(tuple(checks_by_name.values()))
    assert {check.next_step for check in checks_by_name.values()} == {""}
    versions = {name: checks_by_name[name].version for name in checks_by_name}
    assert versions == {
        "python": "3.12.1",
        "uv": "0.9.1",
        "tiny-environment": "1.0",
        "disk": "",
        "pid-namespace": "",
        "kubectl": "1.32.4",
        "gcloud": "528.0.0",
        "gke-gcloud-auth-plugin": "1.30.0",
        "docker": "28.2.2",
        "docker-buildkit": "",
        "docker-engine": "28.2.2",
    }


def test_a_slow_tool_is_reported_as_timed_out_and_not_missing(machine: CheckedMachine) -> None:
    late = ProcessResult(argv=("gcloud",), status=LATE, stdout="", stderr="")
    but: dict[str, ProcessResult | None] = dict.fromkeys(("gcloud", "docker-engine", "unshare"), late)
    checks_by_name = checks(replace(machine, run=lambda argv: answers(argv, but=but)))
    for name, program in (("gcloud", "gcloud"), ("docker-engine", "docker"), ("pid-namespace", "unshare")):
        assert checks_by_name[name].detail == f"{program} timed out: no answer within 20 s"
        assert "less busy" in checks_by_name[name].next_step
    assert checks_by_name["kubectl"].ok


def test_run_tool_returns_late_if_the_tool_does_not_end() -> None:
    done = run_tool(("sleep", "5"), env={"PATH": os.environ["PATH"]}, timeout_s=0.2)
    assert done is not None
    assert done.status == LATE
    assert run_tool(("no-such-tool",), env={"PATH": ""}) is None


def test_a_missing_environment_names_its_setup_command(machine: CheckedMachine) -> None:
    checks_by_name = checks(machine)
    assert not doctor.is_ok(tuple(checks_by_name.values()))
    assert checks_by_name["tiny-environment"].next_step == "xsft setup tiny"


@pytest.mark.loopback
def test_an_environment_without_a_fitting_python_says_setup_downloads_one(machine: CheckedMachine) -> None:
    spec = replace(machine.specs[0], pythons=("3.99",))
    step = checks(replace(machine, specs=(spec,)))["tiny-environment"].next_step
    assert step.startswith("xsft setup tiny, which downloads Python 3.99")


@pytest.mark.loopback
def test_an_environment_with_a_missing_file_is_broken(machine: CheckedMachine) -> None:
    built = envbuild.build(machine.specs[0], machine.place, progress=lambda _: None, verify=False)
    next(built.folder.glob("lib/python*/site-packages/tinything/part.py")).unlink()
    tiny_environment = checks(machine)["tiny-environment"]
    assert (tiny_environment.ok, tiny_environment.next_step) == (False, "xsft setup --verify tiny")
    assert "part.py is gone" in tiny_environment.detail


@pytest.mark.loopback
def test_an_environment_whose_python_does_not_start_is_broken(machine: CheckedMachine) -> None:
    built = envbuild.build(machine.specs[0], machine.place, progress=lambda _: None, verify=False)
    built.python.unlink()
    built.python.write_text("not a program")
    built.python.chmod(0o755)
    tiny_environment = checks(machine)["tiny-environment"]
    assert (tiny_environment.ok, tiny_environment.next_step) == (False, "xsft setup --verify tiny")


@pytest.mark.parametrize("tool", ["unshare", "kubectl", "gcloud", "gke-gcloud-auth-plugin", "docker", "docker-engine"])
@pytest.mark.parametrize("answer", [None, failed("it is broken")], ids=["missing", "failing"])
def test_a_missing_or_failing_tool_is_a_note_with_a_next_step(
    machine: CheckedMachine, tool: str, answer: ProcessResult | None
) -> None:
    checks_by_name = checks(replace(machine, run=lambda argv: answers(argv, but={tool: answer})))
    check = checks_by_name["pid-namespace" if tool == "unshare" else tool]
    assert (check.ok, check.required) == (False, False)
    assert check.next_step
    assert check.detail


def test_an_engine_that_does_not_answer_is_not_a_missing_client(machine: CheckedMachine) -> None:
    silent = failed("Cannot connect to the Docker daemon")
    checks_by_name = checks(replace(machine, run=lambda argv: answers(argv, but={"docker-engine": silent})))
    assert checks_by_name["docker"].ok
    assert checks_by_name["docker-engine"].detail == "Cannot connect to the Docker daemon"


def test_permission_denied_at_the_engine_suggests_joining_its_group(machine: CheckedMachine) -> None:
    denied = failed("permission denied while trying to connect to the Docker daemon socket")
    checks_by_name = checks(replace(machine, run=lambda argv: answers(argv, but={"docker-engine": denied})))
    assert "sudo usermod -aG docker $USER" in checks_by_name["docker-engine"].next_step


def test_a_client_without_buildx_is_ok_only_if_it_is_old_enough(machine: CheckedMachine) -> None:
    without = {"docker-buildkit": failed("unknown command")}
    missing = checks(replace(machine, run=lambda argv: answers(argv, but=without)))["docker-buildkit"]
    assert not missing.ok
    assert "docker-buildx" in missing.next_step
    old = ProcessResult(argv=("docker",), status=0, stdout="Docker version 20.10.24+dfsg1, build 297e128", stderr="")
    docker_buildkit = checks(replace(machine, run=lambda argv: answers(argv, but={**without, "docker": old})))[
        "docker-buildkit"
    ]
    assert (docker_buildkit.ok, docker_buildkit.detail) == (True, "docker can build")


@pytest.mark.loopback
def test_too_little_disk_matters_only_until_all_environments_are_built(machine: CheckedMachine) -> None:
    cramped = replace(machine, free_bytes=lambda _: 2**20)
    assert not checks(cramped)["disk"].ok
    envbuild.build(machine.specs[0], machine.place, progress=lambda _: None, verify=False)
    assert checks(cramped)["disk"].ok


def test_an_old_python_is_not_ok(machine: CheckedMachine) -> None:
    assert not checks(replace(machine, python=(3, 10, 9)))["python"].ok


def test_checked_machine_contains_both_environments() -> None:
    assert {"xpk", "maxtext"} <= {spec.name for spec in doctor.checked_machine().specs}

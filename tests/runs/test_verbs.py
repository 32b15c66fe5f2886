"""The Python API: typed, lazy, and the same answers as the command line's."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import xsft
from tests.fakes.clusters import ClusterApi
from tests.fakes.kuberuns import Runs, ended
from xsft.base.errors import RunFailed, SpecError, TimedOut, UsageError
from xsft.base.problems import error
from xsft.verbs.cli import main

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "api.md"


IMPORT_ALL = """
import importlib, pkgutil, xsft
for module in pkgutil.walk_packages(xsft.__path__, "xsft."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as missing:
        assert not missing.name.startswith("xsft"), missing  # a program for another interpreter
for name in xsft.__all__:
    try:
        getattr(xsft, name)(no_such_option=1)
    except TypeError as refused:
        print(refused)
"""


@pytest.fixture
def runs(api: ClusterApi) -> Runs:
    return Runs(api.standin.objects)


@pytest.mark.contract
def test_a_type_checker_reveals_the_type_of_each_function(tmp_path: Path) -> None:
    """xsft.plan was Any, so that a wrong call passed every check."""
    program = "import xsft\n" + "".join(f"reveal_type(xsft.{name})\n" for name in xsft.__all__) + "xsft.nothing\n"
    (tmp_path / "program.py").write_text(program)
    argv = (sys.executable, "-m", "mypy", "--strict", tmp_path / "program.py")
    stdout = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, check=False).stdout
    revealed = [line for line in stdout.splitlines() if "Revealed type" in line]
    assert len(revealed) == len(xsft.__all__)
    assert not [line for line in revealed if '"Any"' in line or "def (" not in line]
    assert 'Module has no attribute "nothing"' in stdout
    assert (Path(xsft.__file__).parent / "py.typed").exists()


def test_import_of_xsft_loads_no_heavy_module_before_a_function_is_used() -> None:
    program = "import sys, xsft; print([m for m in sys.modules if m.startswith(('xsft.', 'pydantic', 'google'))])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = xsft.nothing  # type: ignore[attr-defined]


@pytest.mark.contract
def test_public_names_are_functions_after_all_modules_were_imported() -> None:
    """A module of one of these names, once imported, would take the place of the function."""
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=True)
    wrong_calls = [f"{name}() got an unexpected keyword argument 'no_such_option'" for name in xsft.__all__]
    assert done.stdout.splitlines() == wrong_calls


@pytest.mark.parametrize("name", xsft.__all__)
def test_every_public_function_is_documented_on_the_page(name: str) -> None:
    assert f"xsft.{name}(" in PAGE.read_text(encoding="utf-8")
    assert getattr(xsft, name).__doc__


def test_the_actions_on_the_page_take_the_arguments_that_it_names() -> None:
    listed = re.findall(r"`(xsft\.\w+\.\w+)\.(\w+)\(([^)]*)\)`", PAGE.read_text(encoding="utf-8"))
    assert len(listed) == 9
    for module, name, arguments in listed:
        parameters = inspect.signature(getattr(import_module(module), name)).parameters
        assert [word.strip(" =") for word in arguments.split(",")] == list(parameters), name


def test_a_spec_error_lists_its_problems() -> None:
    one = error("tpu-unknown", "tpu.type", "v9 is no TPU.", "Take v6e-8.")
    assert str(SpecError((one,))) == "tpu.type: v9 is no TPU. [tpu-unknown]"
    both = str(SpecError((one, error("file-empty", "", "the file is empty", ""))))
    assert both == "2 problems:\n- tpu.type: v9 is no TPU. [tpu-unknown]\n- the file is empty [file-empty]"


def test_a_spec_error_shows_no_token(tmp_path: Path) -> None:
    token = "hf_" + "Ab1" * 12
    (tmp_path / "w.yaml").write_text(f"name: {token}\nstpes: {token}\n")
    with pytest.raises(SpecError) as caught:
        xsft.load(tmp_path / "w.yaml")
    assert token not in str(caught.value)
    assert "stpes" in str(caught.value)


def test_check_finds_what_the_command_line_finds(capsys: pytest.CaptureFixture[str]) -> None:
    file = ROOT / "workloads" / "tiny_local.yaml"
    check_results = xsft.check(xsft.load(file))
    main(("check", str(file), "--notes"))
    err = capsys.readouterr().err
    assert check_results
    assert all(f"[{problem.id}]" in err for problem in check_results)


def test_status_warns_of_a_loss_of_zero_as_the_command_line_does(api: ClusterApi, runs: Runs) -> None:
    runs.admitted("zero")
    step = "completed step: {}, seconds: 4.5, TFLOP/s/device: 459.0, total_weights: 84, loss: 0.000"
    api.standin.logs.say(runs.pod("zero")["metadata"]["name"], *(step.format(number) for number in (1, 2, 3)))
    assert [problem.id for problem in xsft.status(context=api.context).problems] == ["loss-zero"]


def test_wait_returns_the_run_or_raises_its_failure(api: ClusterApi, runs: Runs) -> None:
    runs.jobset("failed", status=ended("Failed", "FailedJobs"))
    runs.admitted("going")
    assert xsft.wait("going", until="running", context=api.context).run_name == "going"
    with pytest.raises(RunFailed):
        xsft.wait("failed", context=api.context)
    with pytest.raises(TimedOut):
        xsft.wait("going", timeout_s=0, context=api.context)
    with pytest.raises(ValueError, match="not a valid goal"):
        xsft.wait("going", until="soon", context=api.context)


def test_why_logs_compare_and_cancel_answer_with_values_and_print_nothing(
    api: ClusterApi, runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.admitted("going")
    runs.pod("going")
    shown = xsft.why("going", context=api.context)
    assert shown.cause.message
    lines = list(xsft.logs("going", context=api.context, tail=5))
    assert all(isinstance(line, str) for line in lines)
    done = xsft.cancel("going", context=api.context)
    assert (done.action, done.jobset.name if done.jobset else None) == ("cancelled", "going")
    assert "going" not in api.world.jobsets()
    with pytest.raises(UsageError):
        xsft.compare(["goin"], context=api.context)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")

"""The lean worker writes what xpk's command line writes, byte for byte, whatever the batch and its order.

Most lines meet `xpk.main.main`, all libraries real, in a child forked for each line (importing them costs a
CPU-second); some meet the console script as a user would call it.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from xsft.base.errors import SpecError
from xsft.environments import render
from xsft.environments.ask import PROGRAMS
from xsft.workers.delivery import text_of

pytestmark = pytest.mark.contract

Argv = tuple[str, ...]

_BOTH = (
    (),
    ("--num-slices=10", "--priority=very-high", "--namespace=team-a"),
    ("--env=A=x y", '--env=B={\\"a\\": [1]}', "--env=C=$$HOME é 😀", "--env=A=last"),
    ("--termination-grace-period-seconds=600", "--ttl-seconds-after-finished=60", "--max-restarts=3"),
    ("--docker-image-pull-secret=pull", "--docker-name=trainer", "--enable-debug-logs"),
    ("--command=A=b exec python3 -m x 'a b' {} {args.workload} {{ x }} %s $$HOME \\ \"q\" é",),
    ("--scheduler=default-scheduler", "--spot", "--project-number=123"),
)
_MCJAX = (
    ("--restart-on-exit-codes=1,3-5", "--max-restarts=2"),
    ("--ramdisk-directory=ram", "--mtc-enabled"),
    ("--deploy-stacktrace-sidecar",),
    ("--use-parallel-containers",),
    ("--debug-dump-gcs=gs://bucket/dump",),
)
_PATHWAYS = (
    ("--custom-pathways-server-args=--a=1 --b=2", "--custom-pathways-proxy-server-args=--c=3"),
    ("--custom-pathways-worker-args=--d=4", "--pathways-gcs-location=gs://bucket/scratch"),
    ("--server-image=registry/server:v1", "--proxy-server-image=registry/proxy:v1"),
    ("--colocated-python-sidecar-image=registry/sidecar:v1", "--elastic-slices=1", "--max-slice-restarts=5"),
    ("--headless",),
)
_TPUS = ("v6e-256", "v6e-8", "v6e-1", "v4-8", "v5p-16", "v5litepod-16", "v5p-2x2x2", "v5p-512", "tpu7x-8", "tpu7x-128")


def _line(verb: str, *flags: str, workload: str = "w", tpu: str = "v6e-8") -> Argv:
    flag_names = {flag.partition("=")[0] for flag in flags}
    common = (
        "--cluster=c",
        "--project=p",
        "--zone=us-east5-b",
        f"--workload={workload}",
        f"--tpu-type={tpu}",
        "--num-slices=2",
        "--docker-image=registry/image@sha256:0",
        "--command=exec python3 -m trainer steps=1",
    )
    other_flags = (flag for flag in common if flag.partition("=")[0] not in flag_names)
    return ("xpk", "workload", verb, *other_flags, *flags)


def _matrix() -> tuple[Argv, ...]:
    cases = [("create", flags) for flags in _BOTH + _MCJAX]
    # A Pathways line has no --scheduler.
    cases += [("create-pathways", tuple(f for f in flags if "--scheduler" not in f)) for flags in _BOTH + _PATHWAYS]
    lines = [_line(verb, *flags, workload=f"w{i}") for i, (verb, flags) in enumerate(cases)]
    verbs = ("create", "create-pathways")
    return (*lines, *(_line(verb, workload="t", tpu=tpu) for verb, tpu in itertools.product(verbs, _TPUS)))


MATRIX = _matrix()


@pytest.fixture(scope="module")
def lean(xpk_python: Path) -> dict[Argv, str]:
    return _lean(MATRIX, xpk_python)


def _lean(lines: tuple[Argv, ...], python: Path) -> dict[Argv, str]:
    """Through the worker alone: what it cannot render is missing here, not rendered by the command line."""
    with render.scratch_for(python) as xpk:
        return render.render_lean(lines, xpk)


FORKING = """
import json, os, sys
from xpk.main import main
for argv, manifest in json.load(open(sys.argv[1])):
    child = os.fork()
    if child == 0:
        sys.argv = ["xpk", *argv, "--dry-run", "--output-manifest-file=" + manifest]
        sys.stdout = open(os.devnull, "w")
        try:
            main()
        except SystemExit as ended:
            os._exit(ended.code or 0)  # no exit handlers, and no 0.4 s of taking apart what the parent imported
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        sys.exit(f"{status}: {argv}")
"""


def _environment(folder: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder), "TELEMETRY_ENABLED": "false"}


def _run(argv: Argv, folder: Path) -> None:
    done = subprocess.run(
        argv, env=_environment(folder), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def _through_main(lines: tuple[Argv, ...], python: Path, folder: Path) -> dict[Argv, str]:
    manifests = {argv: folder / f"{index}.yaml" for index, argv in enumerate(lines)}
    jobs = folder / "jobs.json"
    jobs.write_text(json.dumps([[argv[1:], str(manifest)] for argv, manifest in manifests.items()]))
    _run((str(python), "-c", FORKING, str(jobs)), folder)
    return {argv: manifest.read_bytes().decode() for argv, manifest in manifests.items()}


def _through_console_script(argv: Argv, python: Path, folder: Path) -> str:
    manifest = folder / "console.yaml"
    script = str(python.parent / "xpk")
    _run((str(python), script, *argv[1:], "--dry-run", f"--output-manifest-file={manifest}"), folder)
    return manifest.read_bytes().decode()


def test_every_line_of_the_matrix_equals_xpks_main(lean: dict[Argv, str], xpk_python: Path, tmp_path: Path) -> None:
    assert set(lean) == set(MATRIX), "the lean worker gave up on lines that it should render"
    real = _through_main(MATRIX, xpk_python, tmp_path)
    assert [argv for argv in MATRIX if lean[argv] != real[argv]] == []
    assert len(set(real.values())) > len(MATRIX) * 0.8, "the matrix hardly varies, so it proves little"


@pytest.mark.parametrize("verb", ["create", "create-pathways"])
def test_the_console_script_writes_the_same_manifest_as_the_worker(
    lean: dict[Argv, str], xpk_python: Path, tmp_path: Path, verb: str
) -> None:
    argv = [line for line in MATRIX if line[2] == verb][5]
    assert _through_console_script(argv, xpk_python, tmp_path) == lean[argv]


@pytest.mark.parametrize("seed", range(2))
def test_the_order_and_the_neighbours_in_a_batch_change_nothing(
    lean: dict[Argv, str], xpk_python: Path, seed: int
) -> None:
    chance = random.Random(seed)
    lines = tuple(chance.sample(MATRIX, k=chance.randint(1, len(MATRIX))))
    assert _lean(lines, xpk_python) == {argv: lean[argv] for argv in lines}


def test_a_mcjax_batch_alone_equals_a_mixed_one(lean: dict[Argv, str], xpk_python: Path) -> None:
    """Without a Pathways line in the batch the worker replaces Jinja as well."""
    lines = tuple(argv for argv in MATRIX if argv[2] == "create")
    assert _lean(lines, xpk_python) == {argv: lean[argv] for argv in lines}


def test_a_refused_line_leaves_the_next_one_alone(lean: dict[Argv, str], xpk_python: Path) -> None:
    bad = (_line("create", tpu="v6e-257"), _line("create", "--restart-on-exit-codes=x"), _line("create", workload="W"))
    mixed = tuple(itertools.chain.from_iterable(zip(bad, MATRIX, strict=False)))
    assert _lean(mixed, xpk_python) == {argv: lean[argv] for argv in MATRIX[: len(bad)]}


def test_refusals_come_in_xpks_words_all_at_once(xpk_python: Path, tmp_path: Path) -> None:
    bad = (_line("create", workload="first", tpu="v6e-257"), _line("create", "--env=NAME", workload="second"))
    with pytest.raises(SpecError) as caught:
        render.render((*bad, MATRIX[0]), python=xpk_python, lock_digest="x", cache=tmp_path)
    first, second = caught.value.problems
    assert first.id == second.id == "xpk-refused"
    assert "first" in first.message
    assert "invalid choice: 'v6e-257'" in first.message
    assert "Invalid environment variable" in second.message


def test_an_error_after_the_manifest_does_not_show_the_manifest(xpk_python: Path, tmp_path: Path) -> None:
    without_zone = tuple(flag for flag in _line("create", "--env=A=private-value") if "--zone" not in flag)
    with pytest.raises(SpecError) as caught:
        render.render((without_zone,), python=xpk_python, lock_digest="x", cache=tmp_path)
    assert "private-value" not in caught.value.problems[0].message


def test_the_users_environment_does_not_reach_xpk(
    lean: dict[Argv, str], xpk_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"XPK_TESTER": "true", "SUB_SLICING_ENABLED": "true", "HOME": "/nonexistent"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DRY_RUN_RESOURCES_CONFIG_MAP", "map[v6e-256:1]")
    monkeypatch.setenv("PYTHONPATH", "/nonexistent")
    assert _lean(MATRIX[:1], xpk_python) == {MATRIX[0]: lean[MATRIX[0]]}


def programs_with(folder: Path, renderer: str) -> Path:
    """xsft's programs, with another text of the renderer."""
    programs = folder / "programs"
    shutil.copytree(PROGRAMS, programs)
    (programs / "xpk_renderer.py").write_text(renderer)
    return programs


@pytest.mark.parametrize("argv", [MATRIX[2], MATRIX[-1]])
def test_xpks_command_line_gives_the_same_manifest_without_the_worker(
    lean: dict[Argv, str], xpk_python: Path, tmp_path: Path, argv: Argv
) -> None:
    broken = programs_with(tmp_path, "raise SystemExit(3)\n")
    rendered = render.render((argv,), python=xpk_python, lock_digest="x", cache=tmp_path, programs=broken)
    assert rendered == (lean[argv],)


def test_the_worker_gives_up_when_rendering_needs_a_replaced_library(
    lean: dict[Argv, str], xpk_python: Path, tmp_path: Path
) -> None:
    """A stand-in in the place of Jinja, which Pathways needs: the worker gives up, and the result is still right."""
    source = text_of(render.RENDERER).replace("UNUSED if pathways else", "(*UNUSED, PATHWAYS_ONLY) if pathways else")
    greedy = programs_with(tmp_path, source.replace("if PATHWAYS_ONLY not in packages:", "if False:"))
    line = next(argv for argv in MATRIX if argv[2] == "create-pathways")
    with render.scratch_for(xpk_python, programs=greedy) as xpk:
        assert render.render_lean((line,), xpk) == {}
    rendered = render.render((line,), python=xpk_python, lock_digest="x", cache=tmp_path, programs=greedy)
    assert rendered == (lean[line],)

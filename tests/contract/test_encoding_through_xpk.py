"""argv and environment, byte for byte, through the real xpk, YAML, Kubernetes' expansion and real bash.

Only the kubelet is played: `kubernetes_expand`. `python3` and `sleep` are stubs on PATH; the first writes down what it
got.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.launcher.decoding import decode_command
from tests.launcher.test_encoding import ANY, PIECES
from tests.podshell import executable, stubs_in
from tests.until import until
from xsft.base.names import ModeName
from xsft.environments import render
from xsft.launcher.encoding import (
    BASH_KEEPS,
    command_in_wrapper,
    encode_command,
    encode_env_value,
    env_name_problem,
    kubernetes_expand,
)

pytestmark = pytest.mark.contract

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Case:
    """The intent of a user; `command_env` travels in the command, `container_env` by `--env`."""

    argv: tuple[str, ...]
    command_env: Pairs
    container_env: Pairs
    mode: ModeName


TEXT = st.lists(PIECES | st.text(ANY, max_size=6), max_size=6).map("".join) | st.sampled_from(
    ["x" * 9_000, "env:" * 999]
)
NAMES = (
    st.sampled_from(["FOO", "PID", "HOME", "env", "X_env"])
    | st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
).filter(
    # bash's own variables and what the stub or xpk sets are other tests' subject.
    lambda name: not env_name_problem(name) and name not in {"PATH", "OUT", "LC_ALL", *XPK_SETS}
)
XPK_SETS = ("PATHWAYS_HEAD", "JAX_PLATFORMS", "XCLOUD_ENVIRONMENT", "JAX_BACKEND_TARGET")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    names = draw(st.lists(NAMES, max_size=5, unique=True))
    pairs = tuple((name, draw(TEXT)) for name in names)
    split = draw(st.integers(0, len(pairs)))
    return Case(
        argv=("python3", *draw(st.lists(TEXT, max_size=4))),
        command_env=pairs[:split],
        container_env=pairs[split:],
        mode=draw(st.sampled_from(("mcjax", "pathways"))),
    )


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stubs_in(tmp_path_factory.mktemp("stubs"))


# Each example starts processes, so a failing batch is shown as it was found instead of being shrunk for minutes.
@settings(max_examples=8, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(batch=st.lists(cases(), min_size=2, max_size=6))
def test_the_trainer_gets_the_exact_arguments(batch: list[Case], xpk_python: Path, stubs: Path, tmp_path: Path) -> None:
    manifests = _render(batch, xpk_python)
    for case, manifest in zip(batch, manifests, strict=True):
        _check(case, manifest, stubs=stubs, out=tmp_path / "got", locale="C")


HARD = (
    "",
    " ",
    "$(FOO) $$ $(FOO",
    "train_data_columns=['messages']",
    'json={"a": [1, "b\\n"]}',
    "xenv:y env:",
    "\x1env:\n",
    "".join(map(chr, range(1, 0xA0))),
    "\u2028\u2029\ufeff\ufffe\uffff\U0010ffff",
    "a\n" + " " * 18 + "b",
    "# comment",
    "trailing \\",
    "é日本😀",
    "-n",
    "--",
    "exec",
)


@pytest.mark.parametrize("mode", ["mcjax", "pathways"])
def test_hard_arguments_arrive_unchanged_in_every_locale(
    xpk_python: Path, stubs: Path, tmp_path: Path, mode: ModeName
) -> None:
    pairs = tuple((f"V{index}", value) for index, value in enumerate(HARD))
    case = Case(
        argv=("python3", *HARD),
        command_env=(("FOO", "from the command"), *pairs[::2]),
        container_env=(("BAR", "$(FOO) $(V1)"), *pairs[1::2]),
        mode=mode,
    )
    (manifest,) = _render([case], xpk_python)
    for locale in ("C", "C.UTF-8", "POSIX"):
        _check(case, manifest, stubs=stubs, out=tmp_path / "got", locale=locale)


@pytest.mark.parametrize("mode", ["mcjax", "pathways"])
def test_hard_arguments_arrive_through_the_line_that_a_user_types(
    xpk_python: Path, stubs: Path, tmp_path: Path, mode: ModeName
) -> None:
    """No worker: xpk's console script, started by bash from the line as the plan prints it."""
    case = Case(argv=("python3", *HARD), command_env=(("A", "b c"),), container_env=(("FOO", "x $(A)"),), mode=mode)
    line = " ".join(_shell_quoted(word) for word in _line(case, "w")[1:])
    out = tmp_path / "manifest.yaml"
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "TELEMETRY_ENABLED": "false",
    }
    script = f"{xpk_python} {xpk_python.parent / 'xpk'} {line} --dry-run --output-manifest-file={out}"
    subprocess.run(("bash", "-c", script), env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    _check(case, out.read_text("utf-8"), stubs=stubs, out=tmp_path / "got", locale="C")


def _shell_quoted(word: str) -> str:
    return "'" + word.replace("'", "'\"'\"'") + "'"


def _render(batch: list[Case], python: Path) -> tuple[str, ...]:
    lines = tuple(_line(case, f"w{index}") for index, case in enumerate(batch))
    with render.scratch_for(python) as xpk:
        manifests = render.render_lean(lines, xpk)
    return tuple(manifests[line] for line in lines)


def _line(case: Case, name: str) -> tuple[str, ...]:
    return (
        *("xpk", "workload", "create" if case.mode == "mcjax" else "create-pathways"),
        *("--cluster=c", "--project=p", "--zone=us-east5-b", f"--workload={name}", "--tpu-type=v6e-8"),
        "--docker-image=registry/image:v1",
        *(f"--env={name}={encode_env_value(value)}" for name, value in case.container_env),
        f"--command={encode_command(argv=case.argv, env=case.command_env, mode=case.mode)}",
    )


def _check(case: Case, manifest: str, *, stubs: Path, out: Path, locale: str) -> None:
    container = _container(yaml.safe_load(manifest), case.mode)
    environment = _container_environment(container)
    *bash, script = container["command"]
    assert bash == ["bash", "-c"]
    assert decode_command(command_in_wrapper(script)) == (case.command_env, case.argv)

    ran = {**environment, "PATH": f"{stubs}:/usr/bin:/bin", "OUT": str(out), "LC_ALL": locale}
    expanded = kubernetes_expand(script, environment)
    done = subprocess.run(("bash", "-c", expanded), env=ran, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    _, program, *arguments = Path(f"{out}.argv").read_bytes().split(b"\0")[:-1]
    assert program == str(stubs / "python3").encode()
    assert arguments == [argument.encode() for argument in case.argv[1:]]
    variables = dict(entry.split(b"=", 1) for entry in Path(f"{out}.env").read_bytes().split(b"\0") if entry)
    for name, value in (*case.container_env, *case.command_env):
        assert variables[name.encode()] == value.encode(), name


def _container(jobset: dict[str, object], mode: ModeName) -> dict[str, list[object]]:
    """The trainer's container: the first replicated job's, in both modes."""
    jobs = jobset["spec"]["replicatedJobs"]  # type: ignore[index]
    (container,) = jobs[0]["template"]["spec"]["template"]["spec"]["containers"]
    assert jobs[0]["name"] == ("slice-job" if mode == "mcjax" else "pathways-head")
    return container  # type: ignore[no-any-return]


def _container_environment(container: dict[str, list[object]]) -> dict[str, str]:
    """Expand the variables as the kubelet does: in order, with the ones before. PATHWAYS_HEAD is a pod's field."""
    environment: dict[str, str] = {}
    for entry in container["env"] or []:
        value = entry.get("value", "the-head")  # type: ignore[attr-defined]
        environment[entry["name"]] = kubernetes_expand(value, environment)  # type: ignore[index]
    return environment


@pytest.mark.parametrize("command_env", [(), (("JAX_PLATFORMS", "proxy"), ("FLAGS", "--a=1 --b=2"))])
@pytest.mark.parametrize("mode", ["mcjax", "pathways"])
def test_sigterm_reaches_python(xpk_python: Path, tmp_path: Path, mode: ModeName, command_env: Pairs) -> None:
    """The kubelet signals the container's first process, which is bash; the trainer gets it and may save and exit 0."""
    trainer, ready, saved = tmp_path / "trainer.py", tmp_path / "ready", tmp_path / "saved"
    trainer.write_text(
        textwrap.dedent("""\
            import os, signal, sys, time
            def save(*_):
                open(sys.argv[2], "w").write(os.environ.get("FLAGS", ""))
                sys.exit(0)
            signal.signal(signal.SIGTERM, save)
            open(sys.argv[1], "w").close()
            time.sleep(600)
            """)
    )
    case = Case(
        argv=("python3", str(trainer), str(ready), str(saved)), command_env=command_env, container_env=(), mode=mode
    )
    container = _container(yaml.safe_load(_render([case], xpk_python)[0]), mode)
    environment = _container_environment(container)
    (tmp_path / "python3").symlink_to(sys.executable)
    executable(tmp_path / "sleep", f"#!/bin/sh\nexec {shutil.which('sleep')} 0.1\n")
    bash = subprocess.Popen(
        ("bash", "-c", kubernetes_expand(str(container["command"][2]), environment)),
        env={**environment, "PATH": f"{tmp_path}:/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        until(ready.exists)
        os.kill(bash.pid, signal.SIGTERM)
        output, _ = bash.communicate(timeout=300)
    finally:
        bash.kill()
    assert bash.returncode == 0
    assert "EXIT_CODE=0" in output
    assert saved.read_text() == dict(command_env).get("FLAGS", "")


def test_bash_keeps_the_quoted_text() -> None:
    """Asked of bash itself: a name outside BASH_KEEPS arrives, from the container or from before `exec`."""
    words = subprocess.run(("bash", "-c", "compgen -v"), capture_output=True, text=True, check=True).stdout.split()
    names = {
        *words,
        *BASH_KEEPS,
        "PATH",
        "LD_LIBRARY_PATH",
        "TZ",
        "POSIXLY_CORRECT",
        "SHELL",
        "COLUMNS",
        "TMOUT",
        "PS0",
    }
    value = "/usr/bin:/bin"  # a PATH in which `env` is found, a locale and a time zone nobody has
    lost_names = {name for name in names - BASH_KEEPS if not all(_arrives(name, value))}
    assert lost_names == set()
    assert not any(all(_arrives(name, value)) for name in ("UID", "PPID", "SHELLOPTS", "PWD", "SHLVL"))


def _arrives(name: str, value: str) -> tuple[bool, bool]:
    base = {"PATH": "/usr/bin:/bin"}
    return (
        f"{name}={value}" in _bash("(exec env) & wait $!", {**base, name: value}),
        f"{name}={value}" in _bash(f"({name}={value} exec env) & wait $!", base),
    )


def _bash(script: str, environment: dict[str, str]) -> list[str]:
    done = subprocess.run(("bash", "-c", script), env=environment, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()

"""The compiler as a process: killed, failed or too slow, it gives no verdict."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from xsft.base.errors import EnvironmentMissing, RunFailed, TimedOut
from xsft.environments.installed import BuiltEnvironment
from xsft.fit.cache import FitCache
from xsft.fit.compile import OFFLINE, CompileShop, compile_job, compile_step, prefix
from xsft.fit.step import StepToCompile
from xsft.fit.verdict import DoesNotFit
from xsft.machine.pid_namespace import CONTAINED, detect

pytestmark = pytest.mark.contract

STEP = StepToCompile(topology="v6e-8", num_slices=2, devices_per_chip=1, arguments=("model_name=a",), tokens=2048)

NO_MEMORY = {"error": "MemoryError: ", "phase": "compiling", "seconds": {}, "cpu_s": 1, "rss_kib": 1}


def shop(folder: Path, script: str) -> CompileShop:
    """A shop whose interpreter is a shell script: $5 is where the answer belongs."""
    python = folder / "bin" / "python"
    python.parent.mkdir(exist_ok=True)
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return CompileShop(
        environment=BuiltEnvironment(name="compiler", python=python, digest="", version=""),
        cache=FitCache(folder=folder / "cache"),
        env={"PATH": os.environ["PATH"]},
        say=lambda _line: None,
        contain=lambda: CONTAINED,
        free_gib=lambda: 64.0,
    )


def test_the_compilers_answer_becomes_a_cached_verdict(tmp_path: Path) -> None:
    sizes = {"needed": 40 * 2**30, "limit": 33543704576}
    answer = json.dumps({**sizes, "seconds": {"compiling": 9.5}, "cpu_s": 11.0, "rss_kib": 1048576})
    compile_shop = shop(tmp_path, f"echo 'xsft fit: compiling'\nprintf '%s' '{answer}' > $5")
    lines: list[str] = []
    compiled_step = compile_step(STEP, needed_gib=4.0, shop=replace(compile_shop, say=lines.append))
    assert compiled_step.verdict == DoesNotFit(needed_gib=40.0, limit_gib=31.24, told_by="compiler")
    assert (compiled_step.cpu_s, compiled_step.rss_gib, compiled_step.seconds) == (11.0, 1.0, {"compiling": 9.5})
    assert lines == ["compiling (0 s)"]
    cached = compile_shop.cache.known(STEP)
    assert cached is not None
    assert cached.entry == compiled_step
    assert list((compile_shop.cache.folder / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("kill -9 $$", "it was killed"),
        ("exit 3", "exit status 3"),
        (f"echo '{json.dumps(NO_MEMORY)}' > $5", "while compiling: MemoryError"),
    ],
)  # fmt: skip
def test_a_failed_compiler_gives_no_verdict(tmp_path: Path, script: str, words: str) -> None:
    compile_shop = shop(tmp_path, script)
    with pytest.raises(RunFailed, match=words) as caught:
        compile_step(STEP, needed_gib=4.0, shop=compile_shop)
    assert caught.value.problem_id == "fit-compiler"
    assert compile_shop.cache.known(STEP) is None


def test_the_timeout_stops_the_compiler(tmp_path: Path) -> None:
    compile_shop = shop(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 60")
    with pytest.raises(TimedOut, match=r"timed out after 0\.5 s and was stopped"):
        compile_step(STEP, needed_gib=4.0, shop=replace(compile_shop, timeout_s=0.5))
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    assert compile_shop.cache.known(STEP) is None


def test_ctrl_c_stops_the_compiler(tmp_path: Path) -> None:
    compile_shop = shop(tmp_path, f"echo $$ > {tmp_path}/pid; echo 'xsft fit: compiling'; exec sleep 60")

    def interrupted(_line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_step(STEP, needed_gib=4.0, shop=replace(compile_shop, say=interrupted))
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    assert compile_shop.cache.known(STEP) is None


CONNECT = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=5)"


def test_the_compiler_has_no_network_not_even_loopback() -> None:
    words = prefix(detect())
    if OFFLINE[1] not in words:
        pytest.skip("this system allows no network namespace")
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = (sys.executable, "-c", CONNECT, str(server.getsockname()[1]))
        assert subprocess.run(connect, check=False).returncode == 0
        inside = subprocess.run((*words, *connect), check=False, capture_output=True, text=True)
    assert "Network is unreachable" in inside.stderr


def test_the_compiler_does_not_start_without_enough_memory(tmp_path: Path) -> None:
    compile_shop = shop(tmp_path, f"touch {tmp_path}/started")
    with pytest.raises(EnvironmentMissing, match=r"2\.0 GiB of memory free, 4 needed"):
        compile_step(STEP, needed_gib=4.0, shop=replace(compile_shop, free_gib=lambda: 2.0))
    assert not (tmp_path / "started").exists()


def test_compile_job_names_the_slice_and_writes_only_to_the_scratch_folder(tmp_path: Path) -> None:
    job = compile_job(STEP, scratch=tmp_path)
    assert {"compile_topology=v6e-8", "compile_topology_num_slices=2", "max_target_length=2048", "model_name=a"} < set(
        job["keys"]
    )
    assert [key for key in job["keys"] if "/" in key] == [f"base_output_directory={tmp_path}"]

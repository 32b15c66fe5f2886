"""Compiles a run's step in the compiler's environment: planned memory, no network, writes to the cache folder only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from xsft.base.errors import EnvironmentMissing, RunFailed, TimedOut
from xsft.environments.ask import Interpreter, ProgramFailed, ask
from xsft.environments.installed import BuiltEnvironment
from xsft.fit.cache import FitCache, compiler_versions
from xsft.fit.program import largest_buffers
from xsft.fit.reserved_memory import reserved_memory
from xsft.fit.step import StepToCompile
from xsft.fit.verdict import GIB, CompiledStep, verdict_of
from xsft.machine import clock
from xsft.machine.memory import available_bytes
from xsft.machine.paths import private_folder, scratch_folder
from xsft.machine.pid_namespace import Containment, detect
from xsft.machine.process import run
from xsft.machine.signals import interrupted_after
from xsft.machine.watched_process import GRACE_S
from xsft.trainer.kernel_kills import KILLED, kernel_said, true_status

MARK = "xsft fit: "
"""Start of the program's own lines."""
CONFIG = "post_train/sft.yml"
"""MaxText's yml of SFT, relative to its folder of configurations. source: maxtext@0.2.5"""
COMPILER = "xsft.workers.compile_step"
PROGRAM = "program.txt"
"""File in the scratch folder for the text of the compiled program."""
PASSED_ON = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")
OFFLINE = ("unshare", "--net", "--")

COMPILER_ENV = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # else a second compilation stops at libtpu's lock file
    "DECOUPLE_GCLOUD": "TRUE",
    "HF_HUB_OFFLINE": "1",
    "JAX_PLATFORMS": "cpu",  # else jax looks for a TPU when it makes a constant
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "TPU_ACCELERATOR_TYPE": "v6e-8",  # with the next two: else libtpu looks for its host's metadata
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
}
"""source: measured with libtpu 0.0.44 (aot_fit.md §1)"""


class CompileShop(Struct, frozen=True, kw_only=True):
    """The parts of this machine that a compilation uses; tests pass their own."""

    environment: BuiltEnvironment
    cache: FitCache
    env: Mapping[str, str]
    say: Callable[[str], None]
    timeout_s: float | None = None
    contain: Callable[[], Containment] = detect
    free_gib: Callable[[], float] = lambda: available_bytes() / GIB
    now: Callable[[], str] = clock.now


def compile_step(step: StepToCompile, *, needed_gib: float, shop: CompileShop) -> CompiledStep:
    """Return the compiler's verdict, which is kept in the cache.

    Raises RunFailed, fit-compiler, if the compiler ended without one: killed, or with an error of its own;
    EnvironmentMissing, fit-memory, if the machine has too little memory; TimedOut after `timeout_s`, with the compiler
    stopped.
    """
    try:
        with interrupted_after(shop.timeout_s), _reserve_memory(shop, needed_gib):
            answer = _ask_compiler(step, shop)
    except KeyboardInterrupt as stop:
        if stop.args:
            raise TimedOut(
                f"The compiler timed out after {shop.timeout_s:g} s and was stopped; there is no verdict.",
                fix="Raise --timeout.",
            ) from None
        raise
    entry = _compiled_entry(step, answer, shop)
    shop.cache.keep(step, entry)
    return entry


def _reserve_memory(shop: CompileShop, needed_gib: float) -> Any:
    folder = shop.cache.folder / "running"
    return reserved_memory(folder, needed=needed_gib, say=shop.say, free_gib=shop.free_gib)


def _ask_compiler(step: StepToCompile, shop: CompileShop) -> dict[str, Any]:
    """Run the program to its end. Raises RunFailed if it ended without an answer."""
    began = clock.monotonic()

    def on_line(line: str) -> None:
        if line.startswith(MARK):
            shop.say(f"{line.removeprefix(MARK)} ({clock.monotonic() - began:.0f} s)")

    log = private_folder(shop.cache.folder / "logs") / f"{step.family[:16]}-{step.tokens}.log"
    with scratch_folder("fit", parent=private_folder(shop.cache.folder / "scratch")) as scratch:
        interpreter = Interpreter(
            python=shop.environment.python,
            env=_compiler_environment(shop, scratch),
            prefix=prefix(shop.contain()),
            log=log,
            grace_s=min(GRACE_S, 2.0),
        )
        try:
            answer = ask(interpreter, COMPILER, compile_job(step, scratch=scratch), on_line)
        except ProgramFailed as failed:
            # An error of the compiler is an answer too, from which the verdict is made.
            if failed.reply is None:
                status = true_status(failed.status, failed.tail[-1:])
                raise RunFailed(
                    f"The compiler ended without a verdict: {_why_ended(status, since=began)}.",
                    fix=f"Its whole output: {log}.",
                    id="fit-compiler",
                ) from failed
            answer = failed.reply
        program = scratch / PROGRAM
        text = ""
        if program.is_file():
            text = program.read_text(encoding="utf-8")
    return {**answer, "log": str(log), "program": text}


def _why_ended(status: int, *, since: float) -> str:
    if status != KILLED:
        return f"exit status {status}"
    kernel = kernel_said(since=since)
    return f"it was killed: {kernel}" if kernel else "it was killed (SIGKILL), usually because memory ran out"


def compile_job(step: StepToCompile, *, scratch: Path) -> dict[str, Any]:
    """Return the program's job, as its docstring explains it."""
    added = (
        "run_name=fit",
        f"base_output_directory={scratch}",
        f"max_target_length={step.tokens}",
        f"compile_topology={step.topology}",
        f"compile_topology_num_slices={step.num_slices}",
        "skip_jax_distributed_system=True",
        "enable_goodput_recording=False",
        "log_config=False",
        "jax_cache_dir=",
    )
    keys = [*step.arguments, *added]
    return {
        "config": CONFIG,
        "keys": keys,
        "topology": step.topology,
        "xla_flags": [flag for flag in step.xla_flags if flag.startswith("--xla_")],  # others are of libtpu's runtime
        "step": step.kind,
        "program": str(scratch / PROGRAM),
    }


def prefix(contained: Containment) -> tuple[str, ...]:
    """Return the words in front of the program: a PID namespace, and a network namespace without an interface, where
    the system allows them."""
    words = contained.prefix
    return (*words, *OFFLINE) if words and _can_go_offline(words) else words


@cache
def _can_go_offline(words: tuple[str, ...]) -> bool:
    try:
        return run((*words, *OFFLINE, "true"), env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}, timeout_s=10).ok
    except (EnvironmentMissing, TimedOut):
        return False


def _compiler_environment(shop: CompileShop, scratch: Path) -> dict[str, str]:
    """Return the program's whole environment; its home and its temporary files are in the cache."""
    passed_on = {name: shop.env[name] for name in PASSED_ON if name in shop.env}
    folders = {name: str(scratch) for name in ("HOME", "TMPDIR", "TPU_LOG_DIR", "HF_HOME", "XDG_CACHE_HOME")}
    return {**passed_on, **COMPILER_ENV, **folders}


def _compiled_entry(step: StepToCompile, answer: Mapping[str, Any], shop: CompileShop) -> CompiledStep:
    buffers = largest_buffers(answer["program"])
    verdict = verdict_of(answer, devices_per_chip=step.devices_per_chip, buffers=buffers)
    if verdict is None:
        message = " ".join(answer["error"].split())[:300]
        raise RunFailed(
            f"The compiler ended without a verdict, while {answer['phase']}: {message}",
            fix=f"Its whole output: {answer['log']}. Report it if the run itself would start.",
            id="fit-compiler",
        )
    return CompiledStep(
        verdict=verdict,
        tokens=step.tokens,
        versions=compiler_versions(),
        made_at=shop.now(),
        seconds=answer["seconds"],
        cpu_s=answer["cpu_s"],
        rss_gib=round(answer["rss_kib"] * 1024 / GIB, 2),
    )

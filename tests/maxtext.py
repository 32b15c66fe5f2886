"""The real MaxText answers questions: one process each for its command line and for its input pipeline, all session.

def test_x(maxtext: Worker) -> None:
    (answer,) = ask([{"trainer": argv}], of=maxtext)

What one version of MaxText makes of a command line is always the same: such answers are kept in the user's cache.
"""

from __future__ import annotations

import functools
import hashlib
import json
import select
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from xsft.environments import environments
from xsft.machine import pid_namespace
from xsft.machine.files import write_atomic
from xsft.machine.paths import own_cache

PARSER = Path(__file__).parent / "contract" / "maxtext_parser.py"
PARSERS = sorted(PARSER.parent.glob("maxtext_[pq]*.py"))
"""With what it imports."""
TIMEOUT_S = 300
"""Of one answer."""


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A script in MaxText's environment that answers JSON documents; it is started for the first question."""

    process: Callable[[], WorkerProcess]
    kept: Path | None
    """The folder of the answers to earlier questions, if they are always the same."""

    def ask(self, question: Mapping[str, Any]) -> Any:
        return _kept_or_asked(question, lambda: self.process().ask(question), kept=self.kept)


@dataclass(frozen=True, kw_only=True)
class WorkerProcess:
    """One document a line."""

    questions: IO[str]
    answers: IO[str]
    log: Path
    """What the process wrote, besides answers."""

    def ask(self, question: Mapping[str, Any]) -> Any:
        print(json.dumps(question), file=self.questions, flush=True)
        ready, _, _ = select.select([self.answers], [], [], TIMEOUT_S)
        assert ready, f"MaxText gave no answer within {TIMEOUT_S} s to {str(question)[:500]}"
        line = self.answers.readline()
        assert line, f"MaxText's process ended:\n{self.log.read_text(errors='replace')[-3000:]}"
        return json.loads(line)


def ask(jobs: Sequence[Mapping[str, Any]], *, of: Worker) -> list[Any]:
    """One answer per job (tests/contract/maxtext_parser.py)."""
    return [of.ask(job) for job in jobs]


@contextmanager
def worker(python: Path, script: Path, *, kept: Path | None = None) -> Iterator[Worker]:
    with ExitStack() as stack:
        yield Worker(process=functools.cache(lambda: stack.enter_context(_process(python, script))), kept=kept)


def answer(python: Path, script: Path, given: object = None) -> Any:
    """What `script` prints last in this environment, asked once for each release. `given`: a document on its stdin."""

    def ask() -> Any:
        with TemporaryDirectory(prefix="xsft-maxtext-") as folder:
            done = subprocess.run(
                (python, "-I", script), input=json.dumps(given), env=environment(folder), cwd=folder,
                capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
            )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return _kept_or_asked(given, ask, kept=kept_answers(python, script))


def _kept_or_asked(question: object, ask: Callable[[], Any], *, kept: Path | None) -> Any:
    if kept is None:
        return ask()
    text = json.dumps(question, sort_keys=True)
    file = kept / f"{hashlib.sha256(text.encode()).hexdigest()}.json"
    with suppress(FileNotFoundError):
        return json.loads(file.read_text())
    answer = ask()
    write_atomic(file, json.dumps(answer), durable=False)
    return answer


def kept_answers(python: Path, *scripts: Path) -> Path | None:
    """The folder of what these scripts answered in this environment; None for one that xsft did not build."""
    built = environments.find_environment("maxtext")
    if built is None or built.python != python:
        return None
    programs = b"".join(script.read_bytes() for script in scripts)
    digest = hashlib.sha256(built.digest.encode() + programs).hexdigest()
    folder = own_cache() / "tests-maxtext" / digest[:12]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _process(python: Path, script: Path) -> Iterator[WorkerProcess]:
    """MaxText runs alone in a PID namespace: it ends other people's processes otherwise."""
    contained = pid_namespace.detect()
    pid_namespace.refuse_where_harmful(contained)
    with TemporaryDirectory(prefix="xsft-maxtext-") as folder:
        # -I: neither the user's site nor the checkout can shadow MaxText.
        argv = (*contained.prefix, str(python), "-I", str(script))
        pipe, log, env = subprocess.PIPE, Path(folder, "log"), environment(folder)
        with (
            log.open("w") as err,
            subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=err, text=True, env=env, cwd=folder) as started,
        ):
            assert started.stdin
            assert started.stdout
            try:
                yield WorkerProcess(questions=started.stdin, answers=started.stdout, log=log)
            finally:
                started.kill()


def environment(folder: str) -> dict[str, str]:
    """Made from nothing: M_<KEY> variables would override what is asked."""
    return {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": folder,
        "TMPDIR": folder,
        "JAX_PLATFORMS": "cpu",
        "HF_HUB_OFFLINE": "1",
    }

"""The real MaxText answers questions: one process each for its command line and for its input pipeline, all session.

def test_x(maxtext: Worker) -> None:
    (answer,) = ask([{"trainer": argv}], of=maxtext)
"""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from xsft.effects.local import namespace

PARSER = Path(__file__).parent / "contract" / "maxtext_parser.py"
TIMEOUT_S = 300
"""Of one answer."""


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A script in MaxText's environment that answers JSON documents, one a line."""

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
def worker(python: Path, script: Path) -> Iterator[Worker]:
    """MaxText runs alone in a PID namespace: it ends other people's processes otherwise."""
    contained = namespace.detect()
    namespace.refuse_where_harmful(contained)
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
                yield Worker(questions=started.stdin, answers=started.stdout, log=log)
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

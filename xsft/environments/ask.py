"""Asks a program of `workers` in another interpreter: one question, one answer, and its lines meanwhile."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from xsft import workers
from xsft.base.errors import XsftError
from xsft.machine.paths import scratch_folder
from xsft.machine.watched_process import GRACE_S, follow

PROGRAMS = Path(workers.__file__).parent
"""Folder of the programs."""
TAIL_LINES = 2000
"""Lines kept of a program that ends without an answer."""


class Interpreter(Struct, frozen=True, kw_only=True):
    """Where a program runs."""

    python: Path
    """Of the environment whose libraries the program needs."""
    env: Mapping[str, str]
    """All variables that it gets."""
    prefix: tuple[str, ...] = ()
    """Words in front of its command, for example of a PID namespace."""
    options: tuple[str, ...] = ()
    """Words between the interpreter and the program: another program that becomes it."""
    cwd: Path | None = None
    log: Path | None = None
    """File that gets its output; None: nothing keeps it."""
    timeout_s: float | None = None
    grace_s: float = GRACE_S
    """Seconds that it has to stop when the user interrupts."""


class ProgramFailed(XsftError):
    """A program answered with an error, or ended without an answer.

    `reply`: its answer, with the `error`, `Type: message`; None without one. `status`: its exit status, 128 + n for
    signal n. `tail`: the last lines of its output; `printed`: the last one with a word in it.
    """

    def __init__(self, program: str, *, reply: dict[str, Any] | None, status: int, tail: tuple[str, ...]) -> None:
        self.reply = reply
        self.error: str | None = None
        if reply is not None:
            self.error = reply["error"]
        self.status = status
        self.tail = tail
        self.printed = next((line for line in reversed(tail) if line.strip()), "it printed no message")
        super().__init__(f"{program}: {self.error or f'it ended with status {status}: {self.printed}'}")


def ask(
    interpreter: Interpreter,
    program: str,
    question: object,
    say: Callable[[str], None] = lambda _line: None,
    *,
    folder: Path = PROGRAMS,
) -> Any:
    """Return the answer of a program, a module of `workers`, or of the file of that name in `folder`; its lines go to
    `say`.

    Raises ProgramFailed if it did not answer; TimedOut, and EnvironmentMissing if it cannot be started. If anything is
    raised meanwhile, above all by Ctrl-C, the program is stopped first.
    """
    tail = deque[str](maxlen=TAIL_LINES)

    def on_line(line: str) -> None:
        tail.append(line)
        say(line)

    with scratch_folder("ask") as scratch:
        question_file = scratch / "question.json"
        answer_file = scratch / "answer.json"
        question_file.write_text(json.dumps(question), encoding="utf-8")
        # -I: neither the user's site nor the checkout can shadow a library.
        start = (str(interpreter.python), *interpreter.options, "-I", str(folder / "entry.py"))
        status = follow(
            (*interpreter.prefix, *start, program, str(question_file), str(answer_file)),
            env=interpreter.env,
            log=interpreter.log or scratch / "log",
            on_line=on_line,
            grace_s=interpreter.grace_s,
            cwd=interpreter.cwd,
            timeout_s=interpreter.timeout_s,
        )
        reply: Any = None
        with suppress(FileNotFoundError, ValueError):  # ended without an answer, or while it wrote one
            reply = json.loads(answer_file.read_text(encoding="utf-8"))
    if reply is None or (isinstance(reply, dict) and reply.get("error") is not None):
        raise ProgramFailed(program.rpartition(".")[2], reply=reply, status=status, tail=tuple(tail))
    return reply

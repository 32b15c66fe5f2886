"""A question to a program in another interpreter, here this one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from xsft.base.errors import TimedOut
from xsft.environments.ask import Interpreter, ProgramFailed, ask

pytestmark = [pytest.mark.loopback, pytest.mark.early]

HERE = Interpreter(python=Path(sys.executable), env={"PATH": os.environ["PATH"]})
ENTRY = Path(__file__).parents[2] / "xsft" / "workers" / "entry.py"
PROGRAM = """\
import sys
import time
from xsft.workers.answering import answer_question

def answer(question):
    print("began", flush=True)
    time.sleep(question["sleeps"])
    if question["ends"] is not None:
        sys.stdout.flush()
        import os
        os._exit(question["ends"])
    return {"read": question["text"].upper()}

answer_question(answer)
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for name in ("entry.py", "answering.py"):
        (tmp_path / name).write_text((ENTRY.parent / name).read_text())
    (tmp_path / "shout.py").write_text(PROGRAM)
    return tmp_path


def asked(programs: Path, *, text: str | None = "a", sleeps: float = 0.0, ends: int | None = None) -> object:
    question = {"text": text, "sleeps": sleeps, "ends": ends}
    heard: list[str] = []
    interpreter = replace(HERE, timeout_s=1.0 if sleeps else None)
    answer = ask(interpreter, "xsft.workers.shout", question, heard.append, folder=programs)
    assert heard == ["began"]
    return answer


def test_the_answer_is_returned_and_the_lines_are_passed_on(programs: Path) -> None:
    assert asked(programs) == {"read": "A"}


def test_an_error_of_the_program_is_its_answer(programs: Path) -> None:
    with pytest.raises(ProgramFailed) as failed:
        asked(programs, text=None)
    assert failed.value.error == "AttributeError: 'NoneType' object has no attribute 'upper'"
    assert failed.value.message == f"shout: {failed.value.error}"


def test_a_program_that_ends_without_an_answer_is_named_with_its_status_and_last_line(programs: Path) -> None:
    with pytest.raises(ProgramFailed, match="shout: it ended with status 3: began") as failed:
        asked(programs, ends=3)
    assert (failed.value.error, failed.value.status) == (None, 3)


def test_a_program_that_takes_too_long_is_ended(programs: Path) -> None:
    with pytest.raises(TimedOut):
        asked(programs, sleeps=60)


def test_a_program_imports_nothing_of_xsft_but_its_room(programs: Path) -> None:
    (programs / "shout.py").write_text("import xsft.base.errors")
    with pytest.raises(ProgramFailed, match=r"No module named 'xsft\.base'"):
        ask(HERE, "xsft.workers.shout", {}, folder=programs)

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from typing import get_args

from tests.submissions import planned
from tests.verbs.test_console_evaluation import REPORT
from xsft.base.problems import warning
from xsft.base.reporting import Activity, Reporter, WorkEvent
from xsft.launch.submit import SubmissionBegins
from xsft.stages.convert_stage import ReadingWeights
from xsft.verbs.document import print_lines
from xsft.verbs.documents import EvaluationDocument
from xsft.verbs.terminal import ShownActivity, ShownEvent, terminal


def test_the_default_reporter_prints_nothing(capfd) -> None:
    silent = Reporter()
    with silent.working("submit") as progress, silent.waiting("convert", "asking the hub") as say:
        progress("created")
        progress.pause()
        say("still asking")
    silent.say("a line")
    silent.warn((warning("some-id", "", "message", "fix"),))
    silent.tell(SubmissionBegins(plan=planned()))
    with silent.display(ReadingWeights()) as take:
        take("1 of 2")
    assert capfd.readouterr() == ("", "")


def test_the_terminal_replaces_every_function_of_the_default() -> None:
    shown, silent = terminal(), Reporter()
    assert [name for name in silent.__struct_fields__ if getattr(shown, name) is getattr(silent, name)] == []


def test_the_terminal_has_a_case_for_every_event_and_activity() -> None:
    """mypy asks for a case of each type in these unions; `verbs.documents` imports all verbs, so all producers."""
    assert _narrower(WorkEvent) == {*get_args(ShownEvent), EvaluationDocument}
    assert _narrower(Activity) == set(get_args(ShownActivity))


def _narrower(kind: type) -> set[type]:
    return {*kind.__subclasses__(), *(part for one in kind.__subclasses__() for part in _narrower(one))}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_spinner_shares_a_line_with_a_table() -> None:
    screen = Terminal()
    with redirect_stderr(screen):
        shown = terminal()
        with shown.working("run") as say:
            say("looking")
            shown.tell(REPORT)
            say("looking again")
            shown.say("a line")
    lines = re.split(r"\n|\x1b\[2K", re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()))
    assert {"looking", "┏", "a line"} <= {word for line in lines for word in ("looking", "┏", "a line") if word in line}
    assert [line for line in lines if "looking" in line and ("┏" in line or "a line" in line)] == []


def test_a_spinner_leaves_a_standard_output_that_is_a_file_alone() -> None:
    screen, file = Terminal(), io.StringIO()
    with redirect_stderr(screen), redirect_stdout(file), terminal().working("run") as say:
        say("looking")
        print_lines(("convert  done",))
    assert file.getvalue() == "convert  done\n"
    assert "convert  done" not in screen.getvalue()

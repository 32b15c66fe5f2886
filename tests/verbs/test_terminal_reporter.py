from __future__ import annotations

from tests.submissions import planned
from xsft.base.problems import warning
from xsft.base.reporting import Reporter
from xsft.launch.submit import SubmissionBegins
from xsft.verbs.terminal import terminal


def test_the_default_reporter_prints_nothing(capfd) -> None:
    silent = Reporter()
    with silent.working("submit") as progress, silent.waiting("convert", "asking the hub") as say:
        progress("created")
        progress.pause()
        say("still asking")
    silent.say("a line")
    silent.warn((warning("some-id", "", "message", "fix"),))
    silent.tell(SubmissionBegins(plan=planned()))
    with silent.display(SubmissionBegins(plan=planned())) as take:
        take("1 of 2")
    assert capfd.readouterr() == ("", "")


def test_the_terminal_replaces_every_function_of_the_default() -> None:
    shown, silent = terminal(), Reporter()
    assert [name for name in silent.__struct_fields__ if getattr(shown, name) is getattr(silent, name)] == []

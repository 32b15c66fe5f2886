from __future__ import annotations

from xsft.base.problems import warning
from xsft.launch.listener import ActionListener
from xsft.verbs.terminal import terminal


def test_the_default_listener_prints_nothing(capfd) -> None:
    silent = ActionListener()
    with silent.working("submit") as progress, silent.waiting("convert", "asking the hub") as say:
        progress("created")
        progress.pause()
        say("still asking")
    with silent.training(10) as on_event, silent.reading() as view:
        view.say("1 of 2")
        assert on_event is not None
    silent.say("a line")
    silent.warn((warning("some-id", "", "message", "fix"),))
    silent.converting_on_cluster().on_line("saved")
    assert capfd.readouterr() == ("", "")


def test_the_terminal_listener_replaces_every_method_of_the_default() -> None:
    shown, silent = terminal(), ActionListener()
    assert [name for name in silent.__struct_fields__ if getattr(shown, name) is getattr(silent, name)] == []

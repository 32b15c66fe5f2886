"""Requests of a submission beside its reads of the cluster."""

from __future__ import annotations

from threading import Event

from xsft.base.problems import Problem, error
from xsft.launch.connecting import parser_answer
from xsft.machine.parallel import start

REFUSED = error("maxtext-refuses", "", "MaxText refuses it.", "")


def test_parser_answer_returns_the_problems_of_a_parser_that_has_ended() -> None:
    assert parser_answer(start(lambda: (REFUSED,))) == (REFUSED,)


def test_a_slow_parser_is_reported_as_a_note() -> None:
    done = Event()

    def asked() -> tuple[Problem, ...]:
        done.wait()
        return ()

    (said,) = parser_answer(start(asked), within_s=0.01)
    done.set()
    assert (said.id, said.severity) == ("maxtext-not-asked", "note")
    assert "the next submission uses its answer" in said.message

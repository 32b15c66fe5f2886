from __future__ import annotations

import pytest

from tests.servers import NAME, server
from xsft.base.errors import Refused
from xsft.stages.create_server import confirm_server


def test_the_question_names_the_machine_and_any_answer_but_yes_creates_nothing() -> None:
    asked: list[str] = []

    def decline(question: str) -> bool:
        asked.append(question)
        return False

    with pytest.raises(Refused, match="Nothing was created"):
        confirm_server(server(), ask=decline)
    assert asked == [f"Create {NAME} on one ct6e-standard-1t (v6e-1), until you end it? [y/N] "]
    confirm_server(server(), ask=lambda _question: True)


def test_confirm_server_without_a_terminal_asks_nothing() -> None:
    confirm_server(server(), ask=None)

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from xsft.spec.terminal import safe_text

DIRECTION = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
ACTS = [chr(n) for n in (*range(0x20), *range(0x7F, 0xA0), *DIRECTION)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, é 😀 \u4e2d\tx\n", "plain, é 😀 \u4e2d\tx\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[Hall checks passed", "\\u001b[2J\\u001b[Hall checks passed"),
        ("\x1b]0;title\x07", "\\u001b]0;title\\u0007"),
        ("\x9b2J", "\\u009b2J"),
        ("user\u202etxt.exe\u2066", "user\\u202etxt.exe\\u2066"),
        ("10%\r20%\r\n", "10%\n20%\n"),
    ],
)
def test_what_a_terminal_would_act_on_is_shown_instead(text: str, shown: str) -> None:
    assert safe_text(text) == shown


@given(st.text(alphabet=st.one_of(st.sampled_from(ACTS), st.characters(codec="utf-8"))))
def test_nothing_else_changes_and_nothing_acts(text: str) -> None:
    shown = safe_text(text)
    assert not {*ACTS} - {"\t", "\n"} & {*shown}
    assert safe_text(shown) == shown
    if not {*ACTS} - {"\t", "\n"} & {*text}:
        assert shown == text


@given(st.text())
def test_documents_hold_the_same_afterwards(text: str) -> None:
    assert json.loads(safe_text(json.dumps({text: [text]}, ensure_ascii=False))) == {text: [text]}
    quoted = yaml.safe_dump([text], default_style='"', allow_unicode=True, width=10**9)
    assert yaml.safe_load(safe_text(quoted)) == yaml.safe_load(quoted)

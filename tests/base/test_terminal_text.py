from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from xsft.base.terminal_text import safe_text

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
def test_safe_text_removes_or_escapes_control_characters(text: str, shown: str) -> None:
    assert safe_text(text) == shown


@given(st.text(alphabet=st.one_of(st.sampled_from(ACTS), st.characters(codec="utf-8"))))
def test_safe_text_is_idempotent_and_changes_control_characters_only(text: str) -> None:
    shown = safe_text(text)
    assert not {*ACTS} - {"\t", "\n"} & {*shown}
    assert safe_text(shown) == shown
    if not {*ACTS} - {"\t", "\n"} & {*text}:
        assert shown == text


@given(st.text())
def test_safe_text_keeps_the_values_of_json_and_yaml(text: str) -> None:
    assert json.loads(safe_text(json.dumps({text: [text]}, ensure_ascii=False))) == {text: [text]}
    quoted = yaml.safe_dump([text], default_style='"', allow_unicode=True, width=10**9)
    assert yaml.safe_load(safe_text(quoted)) == yaml.safe_load(quoted)

"""A template that does not end is stopped."""

from __future__ import annotations

import sys

import pytest

from xsft.trainers.chat import chat_format, fault
from xsft.trainers.chat_render import EndlessTemplate, compiled, rendered

LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% set c = b %}{% endfor %}{% endfor %}"
RECURSION = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(90) }}"


@pytest.mark.parametrize("template", [LOOPS, RECURSION])
def test_a_template_that_does_not_end_is_stopped(template: str) -> None:
    traced = sys.gettrace()
    with pytest.raises(EndlessTemplate, match="did not end"):
        rendered(template, [], {})
    assert sys.gettrace() is traced
    assert "did not end" in fault(template)
    assert chat_format(template, {}) is None


def test_long_conversations_are_rendered() -> None:
    messages = [{"role": "user", "content": "hi"}] * 2_000
    text = compiled("{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}").render({"messages": messages})
    assert text == "userhi" * 2_000

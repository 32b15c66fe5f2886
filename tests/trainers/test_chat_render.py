"""Templates that do not end are stopped."""

from __future__ import annotations

import pytest

from xsft.trainers.chat import chat_format, fault
from xsft.trainers.chat_render import EndlessTemplate, compile_template

LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% set c = b %}{% endfor %}{% endfor %}"
RECURSION = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(90) }}"

NO_PASS = "{% for a in range(99999) %}{% for b in range(99999) if b < 0 %}{% endfor %}{% endfor %}"
DEEP = "{% for a in [1, 2] recursive %}{% if loop.depth < 90 %}{{ loop([1, 2]) }}{% endif %}{% endfor %}"


@pytest.mark.parametrize(
    "template",
    [LOOPS, RECURSION, NO_PASS, DEEP],
    ids=["nested ranges", "recursive macro", "filtered loop", "recursive loop"],
)
def test_a_template_that_does_not_end_is_stopped(template: str) -> None:
    with pytest.raises(EndlessTemplate, match="did not end"):
        compile_template(template).render({})


def test_endless_template_is_reported_as_a_fault() -> None:
    assert "did not end" in fault(RECURSION)
    assert chat_format(RECURSION, {}) is None


def test_long_conversations_are_rendered() -> None:
    messages = [{"role": "user", "content": "hi"}] * 2_000
    text = compile_template("{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}").render(
        {"messages": messages}
    )
    assert text == "userhi" * 2_000

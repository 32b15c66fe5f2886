"""Templates that take too much time or memory are stopped, by the limits of the process that renders them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from xsft.trainer.chat import ENDLESS, TemplateFailed, TemplateProcess, chat_format, fault

LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% set c = b %}{% endfor %}{% endfor %}"
RECURSION = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(90) }}"
NO_PASS = "{% for a in range(99999) %}{% for b in range(99999) if b < 0 %}{% endfor %}{% endfor %}"
DEEP = "{% for a in [1, 2] recursive %}{% if loop.depth < 90 %}{{ loop([1, 2]) }}{% endif %}{% endfor %}"
POWER = "{{ 9**(9**9) }}"
DOUBLED = (
    "{% set n = namespace(a='aaaaaaaaaa') %}{% for i in range(90) %}{% set n.a = n.a ~ n.a %}{% endfor %}{{ n.a }}"
)
PADDED = "{{ 'a'.ljust(99999999999) }}"


@pytest.fixture(scope="module")
def process() -> Iterator[TemplateProcess]:
    process = TemplateProcess(limit_s=0.4)
    yield process
    process.close()


@pytest.mark.parametrize(
    ("template", "why"),
    [*((endless, ENDLESS) for endless in (LOOPS, RECURSION, NO_PASS, DEEP, POWER)), (PADDED, "MemoryError")],
    ids=["nested ranges", "recursive macro", "filtered loop", "recursive loop", "power", "padding"],
)
def test_a_template_that_takes_too_much_is_stopped(process: TemplateProcess, template: str, why: str) -> None:
    with pytest.raises(TemplateFailed, match=why):
        process.ask("render", template, {})
    assert process.ask("render", "{{ a }}", {"a": "b"}) == "b"


def test_a_template_that_doubles_its_text_is_stopped(process: TemplateProcess) -> None:
    with pytest.raises(TemplateFailed, match=f"{ENDLESS}|MemoryError"):
        process.ask("render", DOUBLED, {})


def test_a_template_that_was_stopped_is_not_tried_again() -> None:
    assert fault(POWER) == f"it fails: {ENDLESS}"
    started = time.monotonic()
    assert fault(POWER) == f"it fails: {ENDLESS}"
    assert time.monotonic() - started < 0.5
    assert chat_format(POWER, {}) is None


def test_long_conversations_are_rendered(process: TemplateProcess) -> None:
    messages = [{"role": "user", "content": "hi"}] * 2_000
    template = "{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}"
    assert process.ask("render", template, {"messages": messages}) == "userhi" * 2_000

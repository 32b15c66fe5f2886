from __future__ import annotations

import pytest

from tests.tokenizers import DEEPSEEK_TEMPLATE
from xsft.trainer.chat import ChatFormat, chat_format, fault

BOS, EOS = "<s>", "</s>"
TOKENS = {"bos_token": BOS, "eos_token": EOS}

ROLES = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}"
END = "{% endfor %}"
SYSTEM = "{% if messages[0].role != 'system' %}[system]Be kind.{% endif %}"
LLAMA2 = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token }}{{ m.content }}"
    "{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}"
)
"""A BOS before each round is its format."""


@pytest.mark.parametrize(
    ("template", "after", "repeated"),
    [
        (ROLES + END, EOS, ""),
        ("{{ bos_token }}" + ROLES + END, EOS, BOS),
        (SYSTEM + ROLES + END, EOS, "[system]Be kind."),
        ("{{ bos_token }}" + SYSTEM + ROLES + "\n" + END, EOS, BOS + "[system]Be kind."),
        (ROLES + "|" + END, f"{EOS}|", ""),
        (LLAMA2, f" {EOS}", ""),
        # The head is written only where a system message stands: what a workload's own template may do.
        ("{% if messages[0].role == 'system' %}{{ bos_token }}{% endif %}" + ROLES + END, EOS, ""),
        ("{% for m in messages %}{{ m.content }}\n{% endfor %}", "\n", ""),
        ("{{ strftime_now('%d') }}{{ messages | tojson }}", '"}]', None),
    ],
)
def test_chat_format_finds_end_of_answer_and_repeated_text(template: str, after: str, repeated: str | None) -> None:
    format_found = chat_format(template, TOKENS)
    assert format_found is not None
    assert format_found.after_answer == after
    if repeated is not None:
        assert format_found.repeated == repeated


def test_chat_format_reads_the_template_of_deepseek() -> None:
    bos, eos = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
    assert chat_format(DEEPSEEK_TEMPLATE, {"bos_token": bos}) == ChatFormat(after_answer=eos, repeated=bos)


@pytest.mark.parametrize(
    "template",
    [
        "{% break %}{{ messages }}",
        "{{ " + "(" * 20_000 + " }}",
        "{% if %}",
        "{{ raise_exception('System role not supported') }}",
        "{{ messages[0].content }}",
        "{{ messages[9].content.upper() }}",
        "{{ messages[-1].content }}{{ 1 // 0 }}",
        "{{ ''.__class__.__mro__ }}",
        "{% generation %}{% endgeneration %}",
        "{{ 1 + '' }}",
        "",
    ],
)
def test_template_that_cannot_be_rendered_has_no_chat_format(template: str) -> None:
    assert chat_format(template, TOKENS) is None


ROUND = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"


@pytest.mark.parametrize(
    "template",
    [
        ROUND,
        ROUND.replace("content", "content | upper"),
        ROUND.replace("[{{", "{{ bos_token + '' }}[{{"),
        "{% if messages[0].role != 'system' %}{{ raise_exception('no system') }}{% endif %}" + ROUND,
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + ROUND,
    ],
)
def test_template_that_formats_one_kind_of_round_has_no_fault(template: str) -> None:
    assert fault(template) == ""


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (ROUND.replace("m.content", "m.contnt"), "does not contain the answer"),
        (ROUND.replace("m.content", "m.contnt.x"), "UndefinedError"),
        ("{{ raise_exception('never') }}" + ROUND, "TemplateError: never"),
        ("{% for m in messages if m.role == 'assistant' %}{{ m.content }}{% endfor %}", "contain the question"),
    ],
)
def test_template_that_formats_no_round_is_reported(template: str, message: str) -> None:
    assert message in fault(template)

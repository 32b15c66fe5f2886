"""What a chat template writes after an answer, and before a round that is rendered alone. Pure.

transformers renders with jinja2's sandbox; this does the same for two rounds of questions and answers.
source: transformers@5.23.0 utils/chat_template_utils.py [_cached_compile_jinja_template]; MaxText renders each round of
a conversation alone: maxtext@0.2.5 maxtext/input_pipeline/input_pipeline_utils.py [apply_chat_template].
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from msgspec import Struct

ASKED = ("first-question", "second-question")
ANSWERED = ("first-answer", "second-answer")


class Format(Struct, frozen=True, kw_only=True):
    after_answer: str
    """What follows an answer."""
    repeated: str
    """What stands before a later round that is rendered alone, and not in the conversation as a whole."""


TOKENS: Mapping[str, str] = MappingProxyType(
    {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
)
"""Stand-ins: which ones a tokenizer has does not decide whether a template can be rendered."""


def fault(template: str) -> str:
    """Why it formats no round of question and answer, with a system message or without; empty where it does."""
    round_ = [_message("user", ASKED[0]), _message("assistant", ANSWERED[0])]
    without = _fault(template, round_)
    return without and _fault(template, [_message("system", "be brief"), *round_]) and without


def _fault(template: str, messages: list[dict[str, str]]) -> str:
    try:
        _rendered(template, messages[:-1], {**TOKENS, "add_generation_prompt": True})
        text = _rendered(template, messages, TOKENS).casefold()
    except Exception as failed:  # noqa: BLE001 - a template may raise anything
        return f"it stops with {type(failed).__name__}: {str(failed)[:200]}"
    if ASKED[0] in text and ANSWERED[0] in text:
        return ""
    return f"what it writes holds no text of the {'question' if ANSWERED[0] in text else 'answer'}"


def chat_format(template: str, tokens: Mapping[str, str]) -> Format | None:
    """`tokens`: `bos_token` and the like. None where the template cannot be rendered, or changes what was said."""
    messages = [_message("user", ASKED[0]), _message("assistant", ANSWERED[0])]
    later = [_message("user", ASKED[1]), _message("assistant", ANSWERED[1])]
    try:
        alone, again = _rendered(template, messages, tokens), _rendered(template, later, tokens)
        whole = _rendered(template, [*messages, *later], tokens)
    except Exception:  # noqa: BLE001 - a template may raise anything: SyntaxError for a `break` outside of a loop
        return None
    if not all(text in whole for text in (*ASKED, *ANSWERED)) or ANSWERED[0] not in alone or ASKED[1] not in again:
        return None
    after = alone.partition(ANSWERED[0])[2]
    between = _between(whole).removeprefix(after)
    return Format(after_answer=after, repeated=_without_ending(again.partition(ASKED[1])[0], between))


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _between(whole: str) -> str:
    """From the first answer to the second question."""
    return whole.partition(ANSWERED[0])[2].partition(ASKED[1])[0]


def _without_ending(text: str, ending: str) -> str:
    """`text` without the end that it shares with `ending`."""
    shared = next((n for n in range(min(len(text), len(ending)), 0, -1) if text[-n:] == ending[-n:]), 0)
    return text[: len(text) - shared]


def _rendered(template: str, messages: list[dict[str, str]], names: Mapping[str, object]) -> str:
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _json
    environment.globals.update(raise_exception=_raise, strftime_now=lambda form: form)
    return environment.from_string(template).render({"messages": messages, "add_generation_prompt": False, **names})


def _raise(message: str) -> NoReturn:
    from jinja2 import TemplateError

    raise TemplateError(message)


def _json(value: Any, *, ensure_ascii: bool = False, indent: int | None = None, **_: Any) -> str:
    """jinja2's own escapes what HTML would read."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)

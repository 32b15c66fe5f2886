"""The text that a chat template writes after an answer, and before a round that is rendered alone. Pure.

transformers renders with jinja2's sandbox; this module does the same for two rounds of questions and answers. source:
transformers@5.23.0 utils/chat_template_utils.py [_cached_compile_jinja_template]; MaxText renders each round of a
conversation alone: maxtext@0.2.5 maxtext/input_pipeline/input_pipeline_utils.py [apply_chat_template].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from xsft.trainers.chat_render import BoundedTemplate

ASKED = ("first-question", "second-question")
ANSWERED = ("first-answer", "second-answer")


class ChatFormat(Struct, frozen=True, kw_only=True):
    after_answer: str
    """Text that follows an answer."""
    repeated: str
    """Text before a later round that is rendered alone, and that is absent from the conversation as a whole."""


TOKENS: Mapping[str, str] = MappingProxyType(
    {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
)
"""Stand-ins: which ones a tokenizer has does not decide whether a template can be rendered."""


def fault(template: str) -> str:
    """Return why the template cannot format a question and its answer, with or without a system message; empty if it
    can."""
    round_ = [_message("user", ASKED[0]), _message("assistant", ANSWERED[0])]
    without = _fault(template, round_)
    return without and _fault(template, [_message("system", "be brief"), *round_]) and without


def _fault(template: str, messages: list[dict[str, str]]) -> str:
    try:
        _render_template(template, messages[:-1], {**TOKENS, "add_generation_prompt": True})
        text = _render_template(template, messages, TOKENS).casefold()
    except Exception as failed:  # noqa: BLE001 - a template may raise anything
        return f"it fails with {type(failed).__name__}: {str(failed)[:200]}"
    if ASKED[0] in text and ANSWERED[0] in text:
        return ""
    return f"its output does not contain the {'question' if ANSWERED[0] in text else 'answer'}"


def chat_format(template: str, tokens: Mapping[str, str]) -> ChatFormat | None:
    """Return the text that the template writes around answers; None if it cannot be rendered, or changes the messages.
    `tokens`: `bos_token` and the like."""
    messages = [_message("user", ASKED[0]), _message("assistant", ANSWERED[0])]
    later = [_message("user", ASKED[1]), _message("assistant", ANSWERED[1])]
    try:
        alone, again = _render_template(template, messages, tokens), _render_template(template, later, tokens)
        whole = _render_template(template, [*messages, *later], tokens)
    except Exception:  # noqa: BLE001 - a template may raise anything: SyntaxError for a `break` outside of a loop
        return None
    if not all(text in whole for text in (*ASKED, *ANSWERED)) or ANSWERED[0] not in alone or ASKED[1] not in again:
        return None
    after = alone.partition(ANSWERED[0])[2]
    between = _text_between_answers(whole).removeprefix(after)
    return ChatFormat(after_answer=after, repeated=_without_ending(again.partition(ASKED[1])[0], between))


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _text_between_answers(whole: str) -> str:
    """Return the text from the first answer to the second question."""
    return whole.partition(ANSWERED[0])[2].partition(ASKED[1])[0]


def _without_ending(text: str, ending: str) -> str:
    """Return `text` without the end that it shares with `ending`."""
    shared = next((n for n in range(min(len(text), len(ending)), 0, -1) if text[-n:] == ending[-n:]), 0)
    return text[: len(text) - shared]


def _render_template(template: str, messages: list[dict[str, str]], names: Mapping[str, object]) -> str:
    return _compile_once(template).render({"messages": messages, "add_generation_prompt": False, **names})


def renderer(template: str, tokens: Mapping[str, str]) -> Callable[[list[dict[str, Any]], bool], str]:
    """Return a function that renders many rows: (messages, whether the answer is to begin) -> text. It raises what the
    template raises. Keys of messages that are null are left out. source: transformers@5.23.0
    tokenization_utils_base.py [apply_chat_template].

    Raises Jinja's errors for an invalid template.
    """
    one = _compile_once(template)

    def render(messages: list[dict[str, Any]], begin: bool) -> str:  # noqa: FBT001 - as in Jinja
        if not messages:
            raise ValueError("Cannot apply chat template to an empty conversation")
        filled = [{key: value for key, value in message.items() if value is not None} for message in messages]
        return one.render({**tokens, "messages": filled, "add_generation_prompt": begin})

    return render


def _compile_once(template: str) -> BoundedTemplate:
    from xsft.trainers.chat_render import compile_template

    return compile_template(template)

"""The text that a chat template writes after an answer, and before a round that is rendered alone.

transformers renders with jinja2's sandbox; this module has `chat_render` do the same in a process of its own, for two
rounds of questions and answers. source:
transformers@5.23.0 utils/chat_template_utils.py [_cached_compile_jinja_template]; MaxText renders each round of a
conversation alone: maxtext@0.2.5 maxtext/input_pipeline/input_pipeline_utils.py [apply_chat_template].
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from xsft.trainer.chat_render import TemplateQuestion

LIMIT_S = 1.0
"""CPU time for one text; a template of 300 lines takes 1 ms."""
PROGRAM = f"{__package__}.chat_render"
ENDLESS = "it takes too much time or memory"

ASKED = ("first-question", "second-question")
ANSWERED = ("first-answer", "second-answer")


class ChatFormat(Struct, frozen=True, kw_only=True):
    after_answer: str
    """Text that follows an answer."""
    repeated: str
    """Text before a later round that is rendered alone, and that is absent from the conversation as a whole."""


class TemplateFailed(Exception):
    """A template that gives no text; the message says why."""


class TemplateProcess:
    """A process that renders templates with limits of time and memory. It is started when it is needed, and after a
    template that reached a limit, and ends with this one. Shared by threads.
    """

    def __init__(self, *, limit_s: float = LIMIT_S) -> None:
        self._argv = (sys.executable, "-P", "-m", PROGRAM, str(limit_s))
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._endless: set[str] = set()
        atexit.register(self.close)

    def ask(self, what: TemplateQuestion, template: str, names: Mapping[str, object]) -> str:
        """Return the answer to the question. Raises TemplateFailed."""
        question = json.dumps({"what": what, "template": template, "names": names})
        with self._lock:
            answer = {} if question in self._endless else self._answer(question)
            if not answer:
                self._endless.add(question)
        if "text" not in answer:
            raise TemplateFailed(answer.get("fault", ENDLESS))
        return answer["text"]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _answer(self, question: str) -> dict[str, str]:
        """Return the answer; none if a limit ended the process."""
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(self._argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{question}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self.close()
            return {}
        answer: dict[str, str] = json.loads(line)
        return answer


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
    except TemplateFailed as failed:
        return f"it fails: {failed}"
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
        conversation_text = _render_template(template, [*messages, *later], tokens)
    except TemplateFailed:
        return None
    if (
        not all(text in conversation_text for text in (*ASKED, *ANSWERED))
        or ANSWERED[0] not in alone
        or ASKED[1] not in again
    ):
        return None
    after = alone.partition(ANSWERED[0])[2]
    between = conversation_text.partition(ANSWERED[0])[2].partition(ASKED[1])[0].removeprefix(after)
    before = again.partition(ASKED[1])[0]
    # the end that both share is in the conversation, too
    lengths = range(min(len(before), len(between)), 0, -1)
    shared = next((length for length in lengths if before[-length:] == between[-length:]), 0)
    return ChatFormat(after_answer=after, repeated=before[: len(before) - shared])


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def syntax_fault(template: str) -> str:
    """Return where and why plain Jinja rejects the template; empty if it does not."""
    try:
        return _process().ask("syntax", template, {})
    except TemplateFailed as failed:
        return f"{failed}."


def _render_template(template: str, messages: list[dict[str, str]], names: Mapping[str, object]) -> str:
    return _process().ask("render", template, {"messages": messages, "add_generation_prompt": False, **names})


@cache
def _process() -> TemplateProcess:
    return TemplateProcess()

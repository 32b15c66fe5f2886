"""The template file that `data.chat_template` names: which names it may have, and what its text says. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct, field

from xsft.base.problems import Problem, error

WHERE = "data.chat_template"
JINJA_SUFFIXES = (".jinja", ".j2", ".txt")
SUFFIXES = (*JINJA_SUFFIXES, ".json")
"""source: maxtext@0.2.5 input_pipeline/instruction_data_processing.py load_chat_template_from_file."""

JINJA_KEY = "chat_template"
QUESTION_KEYS = ("PROMPT_TEMPLATE", "COMPLETION_TEMPLATE", "REASONING_ANSWER_SEPARATOR")
"""source: maxtext@0.2.5 input_pipeline/instruction_data_processing.py math_qa_formatting."""


class Template(Struct, frozen=True, kw_only=True):
    """The content of a template file: at least one of both fields."""

    jinja: str | None = None
    """Template that formats a conversation as one text."""
    questions: Mapping[str, str] = field(default_factory=dict)
    """Key of `QUESTION_KEYS` -> the text around a question, and around its reasoning and answer."""

    @property
    def digests(self) -> dict[str, str]:
        """Return the sha256 by key: short enough to be shown if two runs differ."""
        texts = {**({JINJA_KEY: self.jinja} if self.jinja else {}), **self.questions}
        return {key: sha256(text.encode()).hexdigest() for key, text in texts.items()}


def template_name_problem(name: str) -> Problem | None:
    """Return why a file of this name is not read; None if it is."""
    if looks_like_jinja(name) or "\n" in name:
        message = "data.chat_template must be a file, but this is a template."
        fix = f"Write it to a file beside the workload and give the file's name, e.g. chat{SUFFIXES[0]}."
        return error("jinja-inline", WHERE, message, fix)
    if "://" in name:
        message = (
            f"{name!r} is a URL; a template must be a file beside the workload, whose content is passed to MaxText."
        )
        return error("chat-template-file", WHERE, message, "Copy the file beside the workload and give its name.")
    if PurePosixPath(name).suffix not in SUFFIXES:
        message = f"{name!r} does not have the suffix of a template; allowed: {', '.join(SUFFIXES)}."
        return error(
            "chat-template-file", WHERE, message, "Rename the file: .json for MaxText's keys, .jinja for Jinja."
        )
    return None


def looks_like_jinja(text: str) -> bool:
    """Return whether the text is a template, not a file's name; a template without either mark would give the same text
    for every conversation."""
    return "{{" in text or "{%" in text


def read_template(name: str, text: str) -> Template | Problem:
    """Return the template in the text of the file, or the problem of a JSON file with other content."""
    if not name.endswith(".json"):
        return Template(jinja=text)
    try:
        content = json.loads(text)
        json.dumps(content, ensure_ascii=False).encode()  # half a surrogate pair cannot be
    except (ValueError, RecursionError) as bad:
        return _unfit_template_problem(f"{name!r} is not JSON: {bad}.")
    return _of_json(name, content)


def _of_json(name: str, content: Any) -> Template | Problem:
    allowed = (JINJA_KEY, *QUESTION_KEYS)
    if not isinstance(content, dict) or not content:
        return _unfit_template_problem(f"{name!r} is not a JSON object with {', '.join(allowed)}.")
    if unknown := sorted(content.keys() - set(allowed)):
        return _unfit_template_problem(f"{name!r} has {', '.join(map(ascii, unknown))}, which MaxText drops.")
    if wrong := [key for key, value in content.items() if not isinstance(value, str) or not value]:
        return _unfit_template_problem(f"{name!r}: {', '.join(wrong)} must be text and not empty.")
    return Template(jinja=content.pop(JINJA_KEY, None), questions=content)


def _unfit_template_problem(message: str) -> Problem:
    fix = f"Write a JSON object with {JINJA_KEY}, or with {', '.join(QUESTION_KEYS)}; or use a .jinja file."
    return error("chat-template-file", WHERE, message, fix)

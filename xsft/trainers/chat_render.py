"""Render chat templates by Jinja as transformers does, and parse them as MaxText does. Pure; Jinja takes 0.1 CPU-s to
import."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any, NoReturn

from jinja2 import Environment, Template, TemplateError, TemplateSyntaxError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


def syntax_fault(template: str) -> str:
    """Return where and why plain Jinja rejects the template; empty if it does not."""
    try:
        Environment().parse(template)  # noqa: S701 - parsed, never rendered
    except TemplateSyntaxError as bad:
        return f"line {bad.lineno}: {bad.message}"
    except RecursionError:
        return "it is nested too deeply."
    return ""


MAX_LINES = 200_000
"""Lines of a compiled template that may run for one text: 0.1 s. A template of 300 lines runs some thousand."""

TOO_MANY_LINES = f"it did not end within {MAX_LINES:,} lines of the compiled template"


class EndlessTemplate(Exception):
    """A template that ran too many lines for one text."""


class BoundedTemplate:
    """A compiled template that ends: a loop without an end would stop every `xsft check`."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._is_endless = False

    def render(self, names: Mapping[str, object]) -> str:
        """Return the text. Raises EndlessTemplate, for every text after the first, and what the template raises."""
        if self._is_endless:
            raise EndlessTemplate(TOO_MANY_LINES)
        before = sys.gettrace()
        sys.settrace(_LineBudget())
        try:
            return self._template.render(names)
        except EndlessTemplate:
            self._is_endless = True
            raise
        finally:
            sys.settrace(before)


class _LineBudget:
    """A trace function: Python calls it for each line that runs."""

    def __init__(self) -> None:
        self._left = MAX_LINES

    def __call__(self, _frame: FrameType, _event: str, _argument: object) -> _LineBudget:
        self._left -= 1
        if self._left < 0:
            raise EndlessTemplate(TOO_MANY_LINES)
        return self


def rendered(template: str, messages: list[dict[str, str]], names: Mapping[str, object]) -> str:
    return compiled(template).render({"messages": messages, "add_generation_prompt": False, **names})


def compiled(template: str) -> BoundedTemplate:
    """Return the compiled template. Raises Jinja's errors for an invalid one."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _json
    environment.globals.update(raise_exception=_raise, strftime_now=lambda form: form)
    return BoundedTemplate(environment.from_string(template))


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _json(value: Any, *, ensure_ascii: bool = False, indent: int | None = None, **_: Any) -> str:
    """Return the value as JSON; jinja2's own filter escapes for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)

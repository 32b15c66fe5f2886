"""Render chat templates by Jinja as transformers does, and parse them as MaxText does. Pure; Jinja takes 0.1 CPU-s to
import."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NoReturn

from jinja2 import Environment, TemplateError, TemplateSyntaxError, nodes
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


MAX_STEPS = 20_000
"""Maximum loop iterations and calls of a template for one text: 0.1 s. A template of 300 lines makes some hundred."""

TOO_MANY_STEPS = f"it did not end within {MAX_STEPS:,} calls and loop iterations"


class EndlessTemplate(Exception):
    """A template that made too many steps for one text."""


class BoundedTemplate:
    """A compiled template that ends: a loop without an end would stop every `xsft check`."""

    def __init__(self, environment: _CountingSandbox, template: str) -> None:
        self._environment = environment
        self._template = environment.from_string(_with_steps(environment.parse(template)))
        self._is_endless = False

    def render(self, names: Mapping[str, object]) -> str:
        """Return the text. Raises EndlessTemplate, for every text after the first, and what the template raises."""
        if self._is_endless:
            raise EndlessTemplate(TOO_MANY_STEPS)
        self._environment.left = MAX_STEPS
        try:
            return self._template.render(names)
        except EndlessTemplate:
            self._is_endless = True
            raise


class _CountingSandbox(ImmutableSandboxedEnvironment):
    """The sandbox, which compiles each call to one of `call`."""

    left = MAX_STEPS

    def call(self, *of: Any, **named: Any) -> Any:
        self.step()
        return super().call(*of, **named)

    def step(self) -> Literal[True]:
        self.left -= 1
        if self.left < 0:
            raise EndlessTemplate(TOO_MANY_STEPS)
        return True


def _with_steps(template: nodes.Template) -> nodes.Template:
    """Call `step` in each pass of each loop, and in each test of whether there is one."""
    for loop in template.find_all(nodes.For):
        step = nodes.Call(nodes.EnvironmentAttribute("step"), [], [], None, None, lineno=loop.lineno)
        loop.body.insert(0, nodes.ExprStmt(step, lineno=loop.lineno))
        loop.test = nodes.And(step, loop.test, lineno=loop.lineno) if loop.test else None
    return template


def compile_template(template: str) -> BoundedTemplate:
    """Return the compiled template. Raises Jinja's errors for an invalid one."""
    environment = _CountingSandbox(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _to_json_filter
    environment.globals.update(raise_exception=_raise, strftime_now=lambda form: form)
    return BoundedTemplate(environment, template)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _to_json_filter(value: Any, *, ensure_ascii: bool = False, indent: int | None = None, **_: Any) -> str:
    """Return the value as JSON; jinja2's own filter escapes for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)

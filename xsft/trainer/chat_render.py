"""The program of a process that renders chat templates by Jinja as transformers does, and parses them as MaxText does,
with limits of time and memory: a template may need as much as it likes of both (`{{ 9**(9**9) }}`).

Standard input: a line `{"what", "template", "names"}` in JSON for each text; standard output: a line `{"text"}` or
`{"fault"}`. The first argument: seconds of CPU time for one text.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NoReturn

from jinja2 import Environment, Template, TemplateError, TemplateSyntaxError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

TemplateQuestion = Literal["syntax", "render"]
"""Where and why plain Jinja rejects the template; its text with these names."""
MEMORY = 2**30
"""Bytes of address space, which macOS does not limit."""
MAX_TEXT = 2**24
"""Characters."""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, float(sys.argv[1]))  # its signal ends the process
        answer = _answer(**json.loads(line))
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(answer), flush=True)


def _answer(what: TemplateQuestion, template: str, names: Mapping[str, object]) -> dict[str, str]:
    try:
        text = _text(what, template, names)
    except Exception as failed:  # noqa: BLE001 - a template may raise anything
        return {"fault": f"{type(failed).__name__}: {str(failed)[:200]}"}
    if len(text) > MAX_TEXT:
        return {"fault": f"its text has more than {MAX_TEXT:,} characters"}
    return {"text": text}


def _text(what: TemplateQuestion, template: str, names: Mapping[str, object]) -> str:
    match what:
        case "syntax":
            return syntax_fault(template)
        case "render":
            return compile_template(template).render(names)


def syntax_fault(template: str) -> str:
    """Return where and why plain Jinja rejects the template; empty if it does not."""
    try:
        Environment().parse(template)  # noqa: S701 - parsed, never rendered
    except TemplateSyntaxError as bad:
        return f"line {bad.lineno}: {bad.message}"
    except RecursionError:
        return "it is nested too deeply."
    return ""


@lru_cache(maxsize=16)
def compile_template(template: str) -> Template:
    """Return the compiled template. Raises Jinja's errors for an invalid one."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _to_json_filter
    environment.globals.update(raise_exception=_raise, strftime_now=lambda form: form)
    return environment.from_string(template)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _to_json_filter(value: Any, *, ensure_ascii: bool = False, indent: int | None = None, **_: Any) -> str:
    """Return the value as JSON; jinja2's own filter escapes for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)


if __name__ == "__main__":
    main()

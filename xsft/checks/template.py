"""Check templates for settings that MaxText would drop silently, or on which it would fail. Pure.

source: maxtext@0.2.5 input_pipeline/instruction_data_processing.py, input_pipeline/hf_data_processing.py,
input_pipeline/grain_data_processing.py; tests/contract/test_templates.py asks them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from string import Formatter

from xsft.base.problems import Problem, error, warning
from xsft.catalog.releases import at_least, key_ok
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import is_on, same, where_of
from xsft.spec.base import Keys
from xsft.spec.resolve import Run
from xsft.spec.template import QUESTION_KEYS, SUFFIXES, WHERE, Template, looks_like_jinja
from xsft.trainer.arguments import QUESTION_FORMATTER, QUESTION_TEXTS
from xsft.trainer.chat import fault, syntax_fault

PATHS = ("chat_template_path", "formatting_func_kwargs.template_path")
PROMPT, COMPLETION, SEPARATOR = (f"{QUESTION_TEXTS}.{key}" for key in QUESTION_KEYS)

BESIDE = "Put the file beside the workload and name it: data.chat_template."


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check for templates that would not format the data although the workload names them."""
    del facts
    yield from _check_template_release(run)
    yield from _check_template_pipeline(run, keys)
    for key in PATHS:
        if key in keys:
            yield from _check_template_path(run, keys, key)
    yield from _check_jinja(run, keys)
    if run.template and run.template.questions and run.spec.data.formatting_func:
        message = "The file of data.chat_template formats questions and answers, and so does data.formatting_func."
        yield error("chat-template-dropped", "data.formatting_func", message, "Remove one of them.")
    argument_keys = [key for key in keys if key.startswith("formatting_func_kwargs")]
    if argument_keys and not keys.get("formatting_func_path"):
        message = "MaxText drops formatting_func_kwargs without a function."
        yield error(
            "chat-template-dropped",
            where_of(argument_keys[0], run),
            message,
            "Set data.formatting_func, or remove them.",
        )
    if keys.get("formatting_func_path") == QUESTION_FORMATTER:
        yield from _check_question_template(run, keys)


def _check_template_release(run: Run) -> Iterator[Problem]:
    """Check that the release supports the template: Jinja is passed by content from 0.2.1 on, texts for questions from
    0.2.2; before, by a path in the image."""
    template = run.template or Template()
    version = run.release.version
    if template.jinja and not key_ok("chat_template", version=version):
        message = f"MaxText {version} does not support Jinja templates: it has no key chat_template."
        fix = "Use MaxText 0.2.1 or newer, or a tokenizer with this template."
        yield error("chat-template-release", WHERE, message, fix)
    if template.questions and not key_ok("formatting_func_path", version=version):
        message = f"MaxText {version} reads question templates only from a path in the image."
        fix = "Use MaxText 0.2.2 or newer; or put the file there and set overrides.maxtext.chat_template_path."
        yield error("chat-template-release", WHERE, message, fix)
    if run.spec.overrides.maxtext.get("chat_template"):
        message = "chat_template contains the template itself. It works, but is hard to read and compare here."
        yield warning("jinja-inline", where_of("chat_template", run), message, BESIDE)


def _check_template_pipeline(run: Run, keys: Keys) -> Iterator[Problem]:
    """Check that the input pipeline reads the template's key."""
    pipeline = str(keys.get("dataset_type") or "hf")
    grain = ("grain",) if at_least(run.release.version, "0.2.2") else ()
    multimodal = is_on(keys.get("use_multimodal", run.pins.get("use_multimodal", False)))
    readers = {"chat_template": ("hf", *grain), "chat_template_path": ("hf",), "formatting_func_path": ("hf",)}
    for key, reading in readers.items():
        if not keys.get(key):
            continue
        if multimodal:
            yield _dropped_template_problem(run, key, "use_multimodal", "MaxText formats images and text without it")
        elif not any(same(pipeline, name) for name in reading):
            yield _dropped_template_problem(
                run, key, f"dataset_type={pipeline}", f"only {' and '.join(reading)} use it"
            )


def _dropped_template_problem(run: Run, key: str, cause: str, why: str) -> Problem:
    message = f"With {cause} MaxText drops {key}: {why}."
    return error("chat-template-dropped", where_of(key, run), message, f"Remove {key}, or {cause}.")


def _check_template_path(run: Run, keys: Keys, key: str) -> Iterator[Problem]:
    """Check the template's path: MaxText joins it to its package's parent folder, and continues without the template if
    that file is missing. Before 0.2.2 a path was the only way to format questions and answers."""
    path = str(keys[key] or "")
    where = where_of(key, run)
    newer = at_least(run.release.version, "0.2.2")
    suffixes = SUFFIXES if newer and key == PATHS[0] else (".json",)
    if not path:
        return
    if looks_like_jinja(path) or "://" in path or PurePosixPath(path).suffix not in suffixes:
        message = f"{key} must be a file in the image ({', '.join(suffixes)}); MaxText drops anything else."
        yield error("chat-template-path", where, message, BESIDE)
    elif newer and not path.startswith("/"):
        message = f"MaxText looks for {path} in its own package folder, and trains without it."
        yield error("chat-template-path", where, message, BESIDE)
    elif newer and key == PATHS[0] and keys.get("chat_template"):
        yield error("chat-template-path", where, "MaxText drops it beside a chat_template.", "Remove one of them.")
    else:
        message = f"MaxText trains without {path} if the image does not have it, or it contains no valid template."
        yield warning(
            "chat-template-path", where, message, f"{BESIDE} Or accept this under `checks:` if it is in the image."
        )


def _check_jinja(run: Run, keys: Keys) -> Iterator[Problem]:
    """Check the Jinja template: MaxText parses it at startup, with plain Jinja, to which `break` and `generation` are
    unknown.

    source: maxtext@0.2.1 and 0.2.5 configs/types.py, "Specified chat_template is invalid".
    """
    text = str(keys.get("chat_template") or "")
    where = where_of("chat_template", run)
    if not text:
        return
    if fault_text := syntax_fault(text):
        message = f"MaxText fails on this template, {fault_text}"
        yield error("chat-template-syntax", where, message, "Correct the template; MaxText supports only plain Jinja.")
    elif looks_like_jinja(text) and (why := fault(text)):
        # Jinja writes nothing for an unknown name, so `m.contnt` would train on rows without an error.
        message = f"The template cannot format a question and its answer: {why}."
        yield error("chat-template-render", where, message, "Each message has a role and a content; correct the names.")
    if not looks_like_jinja(text):
        message = "The template contains no Jinja, so every conversation gives the same text."
        yield error("chat-template-syntax", where, message, "Give the path of a file that contains the template.")


def _check_question_template(run: Run, keys: Keys) -> Iterator[Problem]:
    """Check templates for questions and answers. source: math_qa_formatting, which logs what it drops and continues."""
    fields = ("columns", "eval_columns")
    for name, columns in zip(fields, (run.spec.data.columns, run.spec.data.eval_columns), strict=True):
        if columns and set(columns) != {"question", "answer"}:
            message = f"The template formats [question, answer], and data.{name} is [{', '.join(columns)}]."
            yield error("question-template", f"data.{name}", message, "Write [question, answer], or use a .jinja file.")
    for key in keys:
        if key.startswith(f"{QUESTION_TEXTS}.") and key not in (PROMPT, COMPLETION, SEPARATOR):
            fix = f"Known: {', '.join(QUESTION_KEYS)}."
            yield error("question-template", where_of(key, run), f"MaxText drops {key}.", fix)
    separator = keys.get(SEPARATOR)
    if PROMPT in keys:
        yield from _check_placeholders(run, keys, PROMPT, needed=("question",))
    if COMPLETION in keys:
        yield from _check_placeholders(
            run, keys, COMPLETION, needed=("reasoning", "answer") if separator else ("answer",)
        )
    if SEPARATOR in keys and (not separator or COMPLETION not in keys):
        message = "REASONING_ANSWER_SEPARATOR must not be empty, and needs a COMPLETION_TEMPLATE."
        yield error(
            "question-template",
            where_of(SEPARATOR, run),
            message,
            "Add the COMPLETION_TEMPLATE, or remove the separator.",
        )


def _check_placeholders(run: Run, keys: Keys, key: str, *, needed: tuple[str, ...]) -> Iterator[Problem]:
    """Check the placeholders: Python's str.format fills them in, MaxText's own search finds them; both must agree."""
    text = str(keys[key])
    placeholders = set(re.findall(r"(?<!{){([a-zA-Z0-9_]+)}(?!})", text))
    if _format_fields(text) == placeholders == set(needed):
        return
    name = key.rpartition(".")[2]
    message = f"{name} must hold {' and '.join(f'{{{n}}}' for n in needed)}, and no other single brace."
    fix = "Write any other brace twice, {{ and }}, and put no brace next to a placeholder."
    if name == QUESTION_KEYS[1] and "reasoning" in placeholders and len(needed) == 1:
        fix = "Add the REASONING_ANSWER_SEPARATOR that separates both in the data, e.g. ####."
    yield error("question-template", where_of(key, run), message, fix)


def _format_fields(text: str) -> set[str]:
    """Return the names as str.format reads them; an invalid placeholder, or one with more than a name, is the empty
    name."""
    try:
        parsed = [(name, spec, conversion) for _, name, spec, conversion in Formatter().parse(text) if name is not None]
    except ValueError:
        return {""}
    return {"" if spec or conversion else name for name, spec, conversion in parsed}

"""Format one `key=value` of MaxText's command line. Pure.

MaxText reads values as YAML (OmegaConf.from_cli), so text that YAML would read as something else is quoted for YAML
here; quoting for the shell happens once, at the edge (launchers.encoding).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from xsft.spec.base import Value
from xsft.spec.template import Template

_PLAIN = re.compile(r"[A-Za-z_/.~+-][-A-Za-z0-9_/.:@+~=*?]*")
"""Text that YAML reads unchanged, unless it looks like a number or a YAML word; everything else is quoted."""

_YAML_WORDS = frozenset(
    {"true", "false", "yes", "no", "on", "off", "y", "n", "null", "~", ".nan", ".inf", "-.inf", "+.inf"}
)
_NUMBER_LIKE = re.compile(r"[-+]?\.?[0-9_]")

_NOT_PRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that YAML refuses or folds between single quotes: C0, DEL, C1 with NEL, line separators, BOM (YAML 1.2
§5.1)."""

_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def argument(key: str, value: Value) -> str:
    """Return `key=value`, e.g. `train_data_columns=[question,answer]`, `learning_rate=3e-6`, `run_name='20261121'`."""
    return f"{key}={yaml_value(value)}"


def yaml_value(value: Value | Sequence[Value]) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value)
        case int():
            return str(value)
        case float():
            return _number_text(value)
        case str():
            return _argument_text(value)
        case _:
            return "[" + ",".join(_item(v) for v in value) + "]"


def _number_text(value: float) -> str:
    """Return a number in its usual form: `3e-6`, `0.5`, `1`."""
    if not math.isfinite(value):
        return repr(value).replace("inf", ".inf").replace("nan", ".nan")
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return re.sub(r"e([-+])0+", r"e\1", repr(value)).replace("e+", "e")


def _argument_text(value: str) -> str:
    return value if _reads_as_itself(value) else _quote_scalar(value)


def _item(value: Value) -> str:
    if isinstance(value, str):
        return value if _reads_as_itself(value) and not set(value) & set("?*:=") else _quote_scalar(value)
    return yaml_value(value)


def _reads_as_itself(value: str) -> bool:
    return (
        _PLAIN.fullmatch(value) is not None
        and value.lower() not in _YAML_WORDS
        and _NUMBER_LIKE.match(value) is None
        and not value.endswith(":")
        and value not in ("-", "---", "...")
    )


def _quote_scalar(value: str) -> str:
    """Return a YAML double-quoted scalar if a single-quoted one would fold something in it, else a single-quoted
    one.
    """
    if _NOT_PRINTABLE.search(value):
        return '"' + "".join(_escape_unprintable(c) for c in value) + '"'
    return "'" + value.replace("'", "''") + "'"


def _escape_unprintable(c: str) -> str:
    if c in _SHORT:
        return _SHORT[c]
    return f"\\u{ord(c):04x}" if _NOT_PRINTABLE.match(c) else c


QUESTION_FORMATTER = "maxtext.input_pipeline.instruction_data_processing.math_qa_formatting"
"""Function of MaxText that puts texts around questions and answers."""

QUESTION_TEXTS = "formatting_func_kwargs.template_config"
"""Key of those texts: one key each, nested as MaxText's command line nests `lora.lora_rank`."""


def template_keys(template: Template) -> dict[str, Value]:
    """Return the template's keys by content, not by path: MaxText looks for a path in its own package, and trains
    without a file it does not find.

    source: maxtext@0.2.5 input_pipeline/instruction_data_processing.py load_chat_template_from_file.
    """
    if not template.questions:
        return {"chat_template": template.jinja}
    texts = {f"{QUESTION_TEXTS}.{key}": text for key, text in template.questions.items()}
    return {"chat_template": template.jinja, "formatting_func_path": QUESTION_FORMATTER, **texts}

"""MaxText's command line: one `key=value`, and the whole command that converts Hugging Face weights on a CPU machine.
Pure.

MaxText reads values as YAML (OmegaConf.from_cli), so text that YAML would read as something else is quoted for YAML
here; quoting for the shell happens once, at the edge (launchers.encoding).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from xsft.catalog.releases import at_least
from xsft.spec.base import Value
from xsft.spec.conversion_inputs import ConversionInputs
from xsft.spec.resolve import Run
from xsft.spec.template import Template
from xsft.workers.delivery import text_of

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
SIZED = "xsft.workers.sized_converter"
"""Program that runs the converter with the workload's sizes."""


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
            return value if _reads_as_itself(value) else _quote_scalar(value)
        case _:
            return "[" + ",".join(_item(v) for v in value) + "]"


def _number_text(value: float) -> str:
    """Return a number in its usual form: `3e-6`, `0.5`, `1`."""
    if not math.isfinite(value):
        return repr(value).replace("inf", ".inf").replace("nan", ".nan")
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return re.sub(r"e([-+])0+", r"e\1", repr(value)).replace("e+", "e")


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


def conversion_argv(run: Run) -> tuple[str, ...] | None:
    """Return the `python3 -m …to_maxtext …` that converts the run's weights into the folder of the next attempt; None
    if the workload names a checkpoint or trains from scratch."""
    folder = run.next_try or run.converted
    if run.conversion is None or folder is None or run.output is None:
        return None
    release = run.release
    legacy = release.layout == "legacy"
    config = (release.base_config,) if legacy else ()
    inputs = run.conversion
    keys: dict[str, Any] = {
        "model_name": inputs.model,
        "hf_access_token": "none" if release.hf_access_token_none else None,
        "base_output_directory": folder,
        "scan_layers": inputs.scan_layers,
        "param_scan_axis": run.spec.overrides.maxtext.get("param_scan_axis"),
        "use_multimodal": None if legacy or _is_multimodal(run) else False,
        "hardware": None if legacy else "cpu",
        "checkpoint_storage_use_zarr3": inputs.use_zarr3,
        "checkpoint_storage_use_ocdbt": inputs.use_ocdbt,
        "skip_jax_distributed_system": True,
        **inputs.keys,
    }
    arguments = (argument(key, value) for key, value in keys.items() if value is not None)
    program = ("-c", text_of(SIZED)) if inputs.sized else ("-m",)
    return ("python3", *program, release.to_maxtext, *config, *arguments, *_flags(run, inputs))


def _flags(run: Run, inputs: ConversionInputs) -> tuple[str, ...]:
    release, source = run.release, inputs.source
    lazy = ("--lazy_load_tensors=True",) if release.lazy_load_flag and not release.lazy_load_default else ()
    if _is_multimodal(run):
        lazy = ("--lazy_load_tensors=False",)
    if release.layout == "legacy":
        return lazy
    # MaxText's default weights for the model (gemma3-* is -it) stay unless the workload names others
    names_others = run.model is None or run.model.hf_id != source.repo
    named = (f"--hf_model_path={source.repo}",) if names_others else ()
    takes_commit = at_least(release.version, "0.2.5")
    commit_or_revision = source.commit if takes_commit and source.commit else source.revision
    revision = (f"--revision={commit_or_revision}",) if commit_or_revision and not source.is_folder else ()
    return (*lazy, f"--save_dtype={inputs.dtype}", *named, *revision)


def loads_lazily(run: Run) -> bool:
    return not _is_multimodal(run) and (run.release.lazy_load_flag or run.release.lazy_load_default)


def _is_multimodal(run: Run) -> bool:
    """Return whether the model sets use_multimodal: MaxText refuses False for such a model, and lazy loading if it is
    on.

    source: maxtext@0.2.5 configs/pyconfig.py validate_no_keys_overridden_twice, checkpoint_conversion/to_maxtext.py
    """
    return run.pins.get("use_multimodal") is True

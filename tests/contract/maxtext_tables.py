"""Runs in MaxText's environment: models that its own tables of names, shapes and hooks cannot describe."""

from __future__ import annotations

import json
import sys
import unittest  # noqa: F401 - MaxText exits the process on a configuration error unless it sees this module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import maxtext_quick
from maxtext.checkpoint_conversion import to_huggingface as tables
from maxtext.configs import pyconfig


def main() -> None:
    out, sys.stdout = sys.stdout, sys.stderr
    maxtext_quick.quicken()
    names = tables.HF_MODEL_CONFIGS.keys() & tables.HF_IDS.keys() & tables.PARAM_MAPPING.keys() & tables.HOOK_FNS.keys()
    failures_of = {name: [describe(name, scan_layers=scan) for scan in (True, False)] for name in sorted(names)}
    print(
        json.dumps({name: texts[0] or texts[1] for name, texts in failures_of.items() if any(texts)}),
        file=out,
        flush=True,
    )


def describe(name: str, *, scan_layers: bool) -> str:
    """Return MaxText's words; empty if the tables describe the model, or it has no such layout."""
    keys = (f"model_name={name}", f"scan_layers={scan_layers}", "hardware=cpu", "skip_jax_distributed_system=True")
    try:
        config = pyconfig.initialize_pydantic([tables.__file__, *keys, "attention=dot_product"])
    except (Exception, SystemExit):  # noqa: BLE001 - a layout that the model does not have
        return ""
    document: dict[str, Any] = tables.HF_MODEL_CONFIGS[name].to_dict()
    try:
        tables.PARAM_MAPPING[name](document, config, scan_layers)
        tables.HOOK_FNS[name](document, config, scan_layers, saving_to_hf=False)
    except Exception as problem:  # noqa: BLE001 - what MaxText says is the answer
        return f"convert: {problem!r}"
    try:
        if name in tables.HF_SHAPE:
            tables.HF_SHAPE[name](document)
    except Exception as problem:  # noqa: BLE001 - what MaxText says is the answer
        return f"export: {problem!r}"
    return ""


main()

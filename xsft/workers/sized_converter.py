"""Runs MaxText's converter with the workload's sizes. Sent as a program to MaxText's environment.

Arguments: the converter's module, then its own. The tables of `to_maxtext` take sizes (head_dim scales Llama's queries,
hidden_size Gemma's embedding, the number of layers all of them) from the named model, whatever the workload says. The
exporter has a function that gives them the workload's; the converter does not call it.

source: maxtext@0.2.5 checkpoint_conversion/to_maxtext.py main, to_huggingface.py _validate_or_update_architecture; the
same since 0.2.0.
"""

from __future__ import annotations

import runpy
import sys
from typing import Any

from maxtext.checkpoint_conversion import to_huggingface  # type: ignore[import-not-found]
from maxtext.configs import pyconfig  # type: ignore[import-not-found]

initialize_config = pyconfig.initialize


def initialize_sized(*arguments: Any, **options: Any) -> Any:
    config = initialize_config(*arguments, **options)
    named_model = to_huggingface.HF_MODEL_CONFIGS[config.model_name]
    to_huggingface._validate_or_update_architecture(named_model, config, override=True)  # noqa: SLF001
    return config


if __name__ == "__main__":
    pyconfig.initialize = initialize_sized
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

"""Runs in MaxText's environment: a tiny model of each family from Hugging Face's format to MaxText's and back.

usage: weights_round.py [load] < JOBS > ANSWERS. A job is `{"model", "source", "sizes", "convert", "export", "files",
"logits"}`: command lines of xsft's own (`convert`, `export`), questions to its programs (`files`, `logits`) and the
folder of the source model, which is written here with random weights. An answer is `{"model", "stage", "why"}`: `done`,
or the stage that failed and MaxText's words. `load`: only compute the logits of what was converted.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import traceback
import types
import unittest  # noqa: F401 - MaxText exits the process on a configuration error unless it sees this module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={1 if 'load' in sys.argv else 16}"
sys.modules["xsft"] = types.ModuleType("xsft")  # its __init__ imports what this environment lacks
sys.modules["xsft"].__path__ = [str(ROOT / "xsft")]

import maxtext_quick  # noqa: E402
import numpy as np  # noqa: E402


def main() -> None:
    jobs = json.load(sys.stdin)
    maxtext_quick.quicken()  # the exporter collects garbage after each array
    answers = []
    out, sys.stdout = sys.stdout, sys.stderr
    for job in jobs:
        answers.append(answer(job))
        print(job["model"], answers[-1]["stage"], answers[-1]["why"][:300], file=sys.stderr, flush=True)
    print(json.dumps(answers), file=out, flush=True)


def answer(job: dict[str, Any]) -> dict[str, Any]:
    report: dict[str, Any] = {"model": job["model"], "stage": "source", "why": ""}
    try:
        if "load" in sys.argv:
            report["stage"] = "load"
            ask("xsft.workers.compute_logits", job["logits"])
            return {**report, "stage": "done"}
        write_source(job)
        report["stage"] = "convert"
        run(job["convert"])
        report["stage"] = "export"
        run(job["export"])
        report["stage"] = "files"
        ask("xsft.workers.model_files", job["files"])
        report["stage"] = "done"
    except (Exception, SystemExit) as failed:  # noqa: BLE001 - what MaxText says is the answer
        traceback.print_exc()
        report["why"] = f"{type(failed).__name__}: {str(failed)[:2000]}"
    return report


def ask(module: str, question: dict[str, Any]) -> Any:
    return importlib.import_module(module).answer(question)


def run(argv: list[str]) -> None:
    """Run a command of xsft's here. It ends with SystemExit(0) or without one."""
    from absl import flags
    from maxtext.configs import pyconfig

    for name in ("override_model_architecture", "hf_model_path"):  # defined again by the exporter as a program
        if name in flags.FLAGS:
            delattr(flags.FLAGS, name)
    flags.FLAGS.unparse_flags()
    initialize = pyconfig.initialize
    _python, option, *remaining_argv = argv
    try:
        if option == "-c":
            sys.argv = ["-c", *remaining_argv[1:]]
            exec(compile(remaining_argv[0], "<sent>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = remaining_argv
            runpy.run_module(remaining_argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code:
            raise
    finally:
        pyconfig.initialize = initialize


def write_source(job: dict[str, Any]) -> None:
    """Write the source model as the hub has it: its configuration in the spelling of transformers 4."""
    import ml_dtypes
    from maxtext.checkpoint_conversion import to_huggingface
    from maxtext.checkpoint_conversion.utils import param_mapping
    from safetensors.numpy import save_file

    from xsft.workers.answering import configured
    from xsft.workers.model_files import with_both_spellings
    from xsft.workers.name_tables import leaves

    config = configured(["python3", "-m", "maxtext.checkpoint_conversion.to_huggingface", *job["sizes"]])
    named = to_huggingface.HF_MODEL_CONFIGS[config.model_name]
    to_huggingface._validate_or_update_architecture(named, config, override=True)
    if hasattr(named, "qk_head_dim"):  # which Hugging Face computes from the two parts
        named.qk_head_dim = named.qk_nope_head_dim + named.qk_rope_head_dim
    document = with_both_spellings(json.loads(named.to_json_string(use_diff=False)))
    for section in (document, document.get("text_config", {})):
        section.pop("rope_parameters", None)
        section.pop("transformers_version", None)
    section = document.get("text_config", document)
    section["rope_theta"] = config.rope_max_timescale  # MaxText's copy of Gemma 3's has another
    if "query_pre_attn_scalar" in section:
        section["query_pre_attn_scalar"] = section["head_dim"]
    if "layer_types" in section:
        section["layer_types"] = section["layer_types"][: section["num_hidden_layers"]]
    shapes: dict[str, Any] = {}
    for name, shape in to_huggingface.HF_SHAPE[config.model_name](named.to_dict()).items():
        shapes |= zip(name, shape, strict=True) if isinstance(name, tuple) else {name: shape}.items()
    random = np.random.default_rng(0)
    mapped = param_mapping.PARAM_MAPPING[config.model_name](named.to_dict(), config, config.scan_layers)
    weight_names = {name for names in mapped.values() for _, name in leaves(names)}
    unused = ["vision", "multi_modal", *(["lm_head"] if config.logits_via_embedding else [])]
    if config.model_name.startswith("qwen2"):
        unused += ["q_norm", "k_norm"]  # the table of names is Qwen 3's
    weight_names = {name for name in weight_names if not any(part in name for part in unused)}
    tensors = {
        name: random.normal(0, 0.1, shape).astype(ml_dtypes.bfloat16)
        for name, shape in shapes.items()
        if name in weight_names
    }
    folder = Path(job["source"])
    folder.mkdir(parents=True)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(document))


if __name__ == "__main__":
    main()

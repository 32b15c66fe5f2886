"""The arguments of `xsft checkpoint`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import a_name, add_json, add_settings
from xsft.commands.arguments.wait import add_timing

ACTIONS = {
    "inspect": "show what PATH is: complete or torn, its format, which models it may belong to, which modes read it",
    "convert": "convert the Hugging Face weights under model.hf of FILE into its initial checkpoint, once",
    "export": "write the weights of the training RUN as a Hugging Face folder, once, and verify it",
}
FORMS = ("full", "adapters", "merged")
DTYPES = ("bfloat16", "float32")
"""As `xsft.export.inputs`, which a parser need not load."""
EPILOG = (
    "PATH is a folder of this machine or gs://…, such as …/0/items of a conversion and "
    "…/checkpoints/N/model_params of a run; or a run's name: its newest checkpoint. No array is read. FILE is a "
    "workload. With target: local it is converted in MaxText's environment (`xsft setup maxtext`), else by a CPU "
    "job of the cluster; a second call finds the result. RUN is a training that was submitted from this machine. It is "
    "exported on this machine; `export FILE` exports the training of a cluster by a job there. The result is in "
    "<output>/<RUN>-export/, with the tokenizer and chat template of the training, and is complete once it is "
    "verified. Exit status of inspect 0: a complete checkpoint; 2: torn "
    "or missing; 5: it could not be read."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    said = "; ".join(f"{name}: {what}" for name, what in ACTIONS.items())
    parser.add_argument("action", choices=tuple(ACTIONS), help=said)
    parser.add_argument(
        "what", type=a_name, metavar="PATH|FILE|RUN", help="a checkpoint or the name of a run; a workload"
    )
    add_settings(parser)
    add_json(parser)
    parser.add_argument("--dry-run", action="store_true", help="on a cluster: only print the job's plan")
    parser.add_argument("--yes", action="store_true", help="on a cluster: do not ask before a node is used")
    on_tpu = "on a cluster: convert on one host of a whole slice of the workload's TPU type; its chips are idle"
    parser.add_argument("--on-tpu", action="store_true", help=on_tpu)
    parser.add_argument("--wait", action="store_true", help="on a cluster: wait until the job ends")
    _add_export(parser)
    add_timing(parser)


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--step", type=int, metavar="N", help="export: the checkpoint of step N (default: the newest)")
    forms = "export: weights to write (default: full, and merged after LoRA)"
    parser.add_argument("--what", dest="form", choices=FORMS, help=forms)
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16", help="export: data type of the weights")
    verify = "export: also compare logits with an independent engine, on this machine only (default: tensors)"
    parser.add_argument("--verify", choices=("tensors", "logits"), default="tensors", help=verify)
    where = "export: put it below this folder or gs://… path, or into this empty repository, not below the run's output"
    parser.add_argument("--output", metavar="FOLDER|gs://…|hf://OWNER/NAME", help=where)

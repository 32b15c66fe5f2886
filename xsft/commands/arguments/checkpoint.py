"""The arguments of `xsft checkpoint`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import a_name, add_json, add_settings
from xsft.commands.arguments.wait import add_timing

ACTIONS = {
    "inspect": "show what PATH is: complete or torn, its format, which models it may belong to, which modes read it",
    "convert": "convert the Hugging Face weights under model.hf of FILE into its initial checkpoint, once",
}
EPILOG = (
    "PATH is a folder of this machine or gs://…, such as …/0/items of a conversion and "
    "…/checkpoints/N/model_params of a run; or a run's name: its newest checkpoint. No array is read. FILE is a "
    "workload. With target: local it is converted in MaxText's environment (`xsft setup maxtext`), else by a CPU "
    "job of the cluster; a second call finds the result. Exit status of inspect 0: a complete checkpoint; 2: torn "
    "or missing; 5: it could not be read."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    said = "; ".join(f"{name}: {what}" for name, what in ACTIONS.items())
    parser.add_argument("action", choices=tuple(ACTIONS), help=said)
    parser.add_argument("what", type=a_name, metavar="PATH|FILE", help="a checkpoint or the name of a run; a workload")
    add_settings(parser)
    add_json(parser)
    parser.add_argument("--dry-run", action="store_true", help="on a cluster: only print the job's plan")
    parser.add_argument("--yes", action="store_true", help="on a cluster: do not ask before a node is used")
    on_tpu = "on a cluster: convert on one host of a whole slice of the workload's TPU type; its chips are idle"
    parser.add_argument("--on-tpu", action="store_true", help=on_tpu)
    parser.add_argument("--wait", action="store_true", help="on a cluster: wait until the job ends")
    add_timing(parser)

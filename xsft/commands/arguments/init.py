"""The arguments of `xsft init`."""

from __future__ import annotations

import argparse

DEFAULT_FILE = "workload.yaml"

EPILOG = "Exit status 4 if FILE exists; no file is overwritten."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "file", nargs="?", default=DEFAULT_FILE, metavar="FILE", help="default: %(default)s; - for stdout"
    )
    parser.add_argument(
        "--model", metavar="NAME", help="MaxText's model_name, or a Hugging Face id (default: qwen3-0.6b)"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--local",
        action="store_true",
        help="write a tiny run for this machine, with the model and data that ship with xsft",
    )
    kind.add_argument(
        "--mode", choices=("mcjax", "pathways"), default="mcjax", help="how JAX is driven (default: %(default)s)"
    )

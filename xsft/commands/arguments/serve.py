"""The arguments of `xsft serve`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import a_name, add_json, add_settings
from xsft.commands.arguments.wait import add_timing

EPILOG = (
    "FOLDER and RUN are served on 127.0.0.1 by mlx-lm, which shares no code with MaxText and needs no GPU and no"
    " network; the newest step of RUN is exported first, unless it was. Prints one curl line when the server answers;"
    " Ctrl-C stops it (exit status 130). The engine is built by `xsft setup engine`. FILE is a workload of a cluster"
    " with stages.serve: the server is created there once, found again by the same command, and never deleted by xsft;"
    " Ctrl-C and --timeout end only the waiting. Under --json one document is printed when the server answers."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "model",
        type=a_name,
        metavar="FOLDER|RUN|FILE",
        help="a Hugging Face model (config.json, safetensors files and tokenizer), a training of this machine, or a"
        " workload of a cluster (.yaml)",
    )
    parser.add_argument("--port", type=_port, metavar="N", help="port of 127.0.0.1 (default: a free one)")
    weights = "cluster: folder of the export, or its repository on the hub (default: what its export stage wrote)"
    parser.add_argument("--weights", type=a_name, metavar="gs://PATH", help=weights)
    parser.add_argument("--dry-run", action="store_true", help="cluster: only print the plan and its objects")
    parser.add_argument("--yes", action="store_true", help="cluster: do not ask before a machine is used")
    add_settings(parser)
    add_timing(parser)
    add_json(parser)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:6]) < 2**16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 1 to 65535")
    return int(text)

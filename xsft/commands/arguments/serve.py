"""The arguments of `xsft serve`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_json

EPILOG = (
    "Starts an OpenAI-compatible server on 127.0.0.1 with mlx-lm, which shares no code with MaxText. Prints one curl"
    " line when it answers. It needs no GPU and no network. Ctrl-C stops it (exit status 130). The engine is built by"
    " `xsft setup engine`. Under --json one document is printed when the server answers."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "model", metavar="FOLDER", help="a Hugging Face model: config.json, safetensors files and tokenizer"
    )
    parser.add_argument("--port", type=_port, metavar="N", help="port of 127.0.0.1 (default: a free one)")
    add_json(parser)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:6]) < 2**16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 1 to 65535")
    return int(text)

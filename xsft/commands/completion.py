"""`xsft completion SHELL`: print a completion script; `eval "$(xsft completion bash)"`."""

from __future__ import annotations

import argparse
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="whose completion script")


def run(args: argparse.Namespace) -> int:
    import shtab

    from xsft.commands.verbs import parser

    sys.stdout.write(shtab.complete(parser(), shell=args.shell))
    return 0

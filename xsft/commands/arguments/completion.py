"""The arguments of `xsft completion`."""

from __future__ import annotations

import argparse

SHELLS = ("bash", "zsh", "fish", "tcsh")

RUNS, PLACES = "runs", "places"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    told = f"print the completion script of this shell; {RUNS}: names of runs submitted from this machine;"
    parser.add_argument("shell", choices=(*SHELLS, RUNS, PLACES), help=f"{told} {PLACES}: names in places.yaml")

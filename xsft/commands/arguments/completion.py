"""The arguments of `xsft completion`."""

from __future__ import annotations

import argparse

SHELLS = ("bash", "zsh", "fish", "tcsh")

RUNS, PLACES = "runs", "places"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    told = f"whose completion script; {RUNS}: the names it offers, of runs that were submitted from this machine;"
    parser.add_argument("shell", choices=(*SHELLS, RUNS, PLACES), help=f"{told} {PLACES}: those of places.yaml")

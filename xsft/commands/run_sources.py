"""The real runs behind the verbs about runs: read from clusters and from this machine."""

from __future__ import annotations

import argparse

from xsft.commands.run_lookup import Read
from xsft.effects.runs import Reading


def reader(args: argparse.Namespace) -> Read:
    del args
    return Reading

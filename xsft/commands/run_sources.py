"""The real runs behind the verbs about runs: read from clusters and from this machine."""

from __future__ import annotations

import argparse

from xsft.commands.run_lookup import Read
from xsft.commands.status import Screen
from xsft.effects import clock
from xsft.effects.runs import Reading
from xsft.states.classify import classify
from xsft.states.rows import Wanted

EVERYTHING = Wanted(everything=True)


def screen_for(args: argparse.Namespace) -> Screen:
    """All that can be seen from where the arguments say."""
    return Screen(read=reader(args), classify=classify, wanted=EVERYTHING, now=clock.now)


def reader(args: argparse.Namespace) -> Read:
    del args
    return Reading

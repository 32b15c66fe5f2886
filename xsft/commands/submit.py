"""`xsft submit FILE`: execute the plan that `xsft plan FILE` prints, on its cluster or on this machine."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from xsft import api
from xsft.commands import plan
from xsft.commands.asking import at_terminal, confirm
from xsft.commands.failure import print_problems
from xsft.commands.progress import shown
from xsft.commands.submit_cluster import submit_cluster
from xsft.commands.submit_local import submit_local
from xsft.commands.submit_wait import after_plan
from xsft.commands.waiting import WaitLimits
from xsft.effects.submit.interrupts import NOTHING_CREATED, when_interrupted
from xsft.errors import UsageError
from xsft.submitting import submitter_for


def run(args: argparse.Namespace) -> int:
    if args.timeout is not None and not (args.wait or args.follow):
        raise UsageError("--timeout needs --wait or --follow.", fix="Add one of them, or omit --timeout.")
    if args.dry_run:
        return _plan(args)
    loaded = api.load(args.file, settings=args.settings, run_name=args.run_name)
    with when_interrupted(NOTHING_CREATED), shown("xsft") as progress:
        (plan,) = api.plan((loaded,), progress=progress)
    accepted = api.accepted(plan)
    if plan.on_this_machine:
        print_problems(p for p in accepted if p.severity == "warning")
        if args.through_xpk:
            raise UsageError("--through-xpk: the workload runs on this machine.", fix="Omit it.")
        return submit_local(plan, json=args.json)
    connect = partial(submitter_for, loaded, plan, through_xpk=args.through_xpk)
    patience = WaitLimits(timeout_s=args.timeout, poll_s=args.poll)
    after = after_plan(plan, patience=patience, log=sys.stderr if args.json else sys.stdout, follow=args.follow)
    wait = after.wait if args.wait or args.follow else None
    ask = confirm if at_terminal() and not (args.yes or args.json) else None
    return submit_cluster(plan, connect=connect, json=args.json, wait=wait, ask=ask)


def _plan(args: argparse.Namespace) -> int:
    return plan.run(argparse.Namespace(**vars(args), files=[args.file], manifest=False, audit=False, offline=False))

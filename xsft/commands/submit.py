"""`xsft submit FILE`: execute the plan that `xsft plan FILE` prints, on its cluster or on this machine."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from xsft import api
from xsft.actions.plans import PlanFormat, print_plans
from xsft.actions.runs.waiting import WaitLimits
from xsft.actions.submit.cluster import submit_cluster
from xsft.actions.submit.local import submit_local
from xsft.actions.submit.wait import after_plan
from xsft.effects.machine.streams import has_terminal
from xsft.effects.submit.interrupts import NOTHING_CREATED, when_interrupted
from xsft.errors import UsageError
from xsft.screen.asking import confirm
from xsft.screen.failure import print_problems
from xsft.screen.progress import shown
from xsft.submitting import submitter_for


def run(args: argparse.Namespace) -> int:
    if args.timeout is not None and not (args.wait or args.follow):
        raise UsageError("--timeout needs --wait or --follow.", fix="Add one of them, or omit --timeout.")
    if args.dry_run:
        form: PlanFormat = "json" if args.json else "text"
        return print_plans([args.file], settings=args.settings, run_name=args.run_name, offline=False, form=form)
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
    ask = confirm if has_terminal() and not (args.yes or args.json) else None
    return submit_cluster(plan, connect=connect, json=args.json, wait=wait, ask=ask)

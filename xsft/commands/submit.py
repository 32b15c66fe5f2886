"""`xsft submit FILE`: execute the plan that `xsft plan FILE` prints, on its cluster or on this machine."""

from __future__ import annotations

import argparse
from functools import partial

from xsft.commands.arguments import add_json, add_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="workload YAML, or - for stdin")
    add_settings(parser)
    add_json(parser)
    parser.add_argument("--dry-run", action="store_true", help="the same as xsft plan")
    parser.add_argument(
        "--through-xpk",
        action="store_true",
        help="run the xpk line itself (gcloud, kubectl); refused where it would lose something",
    )


def run(args: argparse.Namespace) -> int:
    from xsft import api
    from xsft.commands.failure import print_problems
    from xsft.commands.progress import shown
    from xsft.errors import UsageError

    if args.dry_run:
        return _plan(args)
    loaded = api.load(args.file, settings=args.settings, run_name=args.run_name)
    with shown("xsft") as progress:
        (plan,) = api.plan((loaded,), progress=progress)
    print_problems(p for p in api.accepted(plan) if p.severity == "warning")
    match plan.target:
        case "local":
            from xsft.commands.submit_local import submit_local

            if args.through_xpk:
                raise UsageError("--through-xpk: the workload runs on this machine.", fix="Leave it out.")
            return submit_local(plan, json=args.json)
        case "xpk":
            from xsft.commands.submit_cluster import submit_cluster

            connect = partial(api.submitter_for, loaded, plan, through_xpk=args.through_xpk)
            return submit_cluster(plan, connect=connect, json=args.json)


def _plan(args: argparse.Namespace) -> int:
    from xsft.commands import plan

    return plan.run(argparse.Namespace(**vars(args), files=[args.file], manifest=False))

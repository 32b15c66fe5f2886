"""`xsft plan FILE…`: print exactly what submit would do."""

from __future__ import annotations

import argparse

from xsft.stages.stage_plans import plan_files
from xsft.verbs.plans import print_plans
from xsft.verbs.progress import show_progress


def run(args: argparse.Namespace) -> int:
    with show_progress("xsft") as progress:
        planned = plan_files(
            args.files, settings=args.settings, run_name=args.run_name, offline=args.offline, progress=progress
        )
    return print_plans(planned, args.part, json=args.json)

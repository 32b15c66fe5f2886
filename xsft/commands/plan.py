"""`xsft plan FILE…`: print exactly what submit would do."""

from __future__ import annotations

import argparse

from xsft.actions.plans import PlanFormat, print_plans


def run(args: argparse.Namespace) -> int:
    form: PlanFormat = "json" if args.json else "manifests" if args.manifest else "audit" if args.audit else "text"
    return print_plans(args.files, settings=args.settings, run_name=args.run_name, offline=args.offline, form=form)

"""`xsft diff A B`: what two workloads would do differently; scripts read `same` under --json."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from xsft.commands.arguments import add_json, add_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="workload YAML")
    parser.add_argument(
        "b", metavar="B", help="workload YAML; the same file again together with --set compares against it as written"
    )
    add_settings(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """`--set` applies to B only where A and B are the same file, else to both."""
    from xsft import api
    from xsft.commands.diff_text import diff_text, differences
    from xsft.commands.documents import print_json
    from xsft.commands.progress import shown

    same_file = args.a == args.b
    a = api.load(args.a, settings=() if same_file else args.settings, run_name=None if same_file else args.run_name)
    b = api.load(args.b, settings=args.settings, run_name=args.run_name)
    with shown("xsft") as progress:
        plans = api.plan((a, b), progress=progress)
    found: dict[str, list[dict[str, Any]]] = differences(*plans)
    if args.json:
        print_json("diff", {"a": args.a, "b": args.b, "same": not any(found.values()), "differences": found})
    else:
        sys.stdout.write(diff_text(found, a=args.a, b=args.b))
    return 0

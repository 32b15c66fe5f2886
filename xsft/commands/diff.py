"""`xsft diff A B`: show what two workloads would do differently; scripts read `same` under --json."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from xsft import api
from xsft.commands.diff_text import diff_text, differences
from xsft.commands.documents import print_json
from xsft.commands.progress import shown


def run(args: argparse.Namespace) -> int:
    """Print the differences. `--set` applies to B only if A and B are the same file, else to both."""
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

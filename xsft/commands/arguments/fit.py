"""The arguments of `xsft fit`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_files, add_json, add_settings
from xsft.commands.durations import duration

EPILOG = """\
Exit status 0 if every step fits or is marginal, 2 if one does not fit or cannot be built. A compilation takes 2 to 6
minutes of CPU and up to 4 GiB of memory, 10 to 14 minutes and 7 GiB for deepseek3-671b; asking again takes none.
"""

BUDGET_S = 1800.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_files(parser)
    add_settings(parser)
    add_json(parser)
    parser.add_argument(
        "--timeout", type=duration, metavar="TIME", help="stop a compilation after this time, e.g. 90s, 20m, 1h"
    )
    each = "print a table, with one verdict for each of these"
    parser.add_argument("--types", type=_list, default=[], metavar="TYPE,…", help=f"{each} TPU types")
    parser.add_argument("--slices", type=_list, default=[], metavar="N,…", help=f"{each} numbers of slices")
    parser.add_argument("--again", action="store_true", help="compile even if the verdict is known")
    parser.add_argument("--eval", action="store_true", help="compile the step of the evaluation too, if there is one")
    _add_search(parser)


def _add_search(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("search")
    group.add_argument(
        "--search", action="store_true", help="find the nearest configuration that fits; --types and --slices limit it"
    )
    group.add_argument(
        "--keep", nargs="+", default=[], metavar="KEY", help="keys that stay as they are, e.g. tpu max_target_length"
    )
    group.add_argument("--max-chips", type=int, metavar="N", help="chips of all slices; default: twice the workload's")
    group.add_argument(
        "--budget", type=duration, default=BUDGET_S, metavar="TIME", help="how long to search; default: 30m"
    )
    group.add_argument("--write", action="store_true", help="change the file; comments stay")


def _list(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]

"""The arguments of `xsft import`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_json

EPILOG = """\
The paste is an `xpk workload create` or `create-pathways` line, with the `export` lines above it, or a page of Markdown
with both in its code blocks. What `xsft plan` would refuse in the workload is listed. Exit status 2 where
values are missing: the workload is written all the same, and names them. 4 where OUT exists."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="file with the pasted line; - (the default) for stdin"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="write the workload to this file instead of stdout")
    parser.add_argument(
        "--line", type=int, metavar="N", help="number of the line where the xpk line begins, if there are several"
    )
    add_json(parser)

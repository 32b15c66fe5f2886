"""The arguments of `xsft import`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_json

EPILOG = """\
The paste is an `xpk workload create` or `create-pathways` line, with the `export` lines above it, or a page of Markdown
with both in its code blocks. Problems for which `xsft plan` would refuse it are listed. Exit status 2 if
values are missing: the workload is written anyway, and lists them. 4 if OUT exists."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="file with the pasted line; - (the default) for stdin"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="write the workload to this file instead of stdout")
    parser.add_argument(
        "--line", type=int, metavar="N", help="line number of the xpk line to import, if there are several"
    )
    add_json(parser)

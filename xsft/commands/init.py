"""`xsft init [FILE]`: write a commented workload to start from; never over a file that exists."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from xsft.commands.new_file import refuse_unless_free, schema_line, write_new

DEFAULT_FILE = "workload.yaml"
TEMPLATES = Path(__file__).parent.parent / "data" / "init"
EPILOG = "Exit status 4 where FILE exists: nothing is ever overwritten."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "file", nargs="?", default=DEFAULT_FILE, metavar="FILE", help="default: %(default)s; - for stdout"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--local", action="store_true", help="a tiny run on this machine, with what ships with xsft")
    kind.add_argument(
        "--mode", choices=("mcjax", "pathways"), default="mcjax", help="how JAX is driven (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    variant = "local" if args.local else args.mode
    if args.file == "-":
        sys.stdout.write(workload_text(variant, folder=None))
        return 0
    target = Path(args.file)
    refuse_unless_free(target, instead="`xsft init -` prints.")
    write_new(target, workload_text(variant, folder=target.absolute().parent))
    sys.stderr.write(f"wrote {target}; next: edit it, then `xsft check {target}`\n")
    return 0


def workload_text(variant: str, *, folder: Path | None) -> str:
    """The template for `mcjax`, `pathways` or `local`; `folder` is where the file will lie."""
    return schema_line(folder) + (TEMPLATES / f"{variant}.yaml").read_text(encoding="utf-8")

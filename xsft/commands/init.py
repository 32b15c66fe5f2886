"""`xsft init [FILE]`: write a commented workload to start from; never over a file that exists."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from xsft.errors import EnvironmentMissing, Refused

DEFAULT_FILE = "workload.yaml"
TEMPLATES = Path(__file__).parent.parent / "data" / "init"
SCHEMA = Path(__file__).parent.parent / "spec" / "schema.json"
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
    _refuse_unless_free(target)
    _write(target, workload_text(variant, folder=target.absolute().parent))
    sys.stderr.write(f"wrote {target}; next: edit it, then `xsft check {target}`\n")
    return 0


def workload_text(variant: str, *, folder: Path | None) -> str:
    """The template for `mcjax`, `pathways` or `local`, its first line naming the schema for editors.

    `folder` is where the file will lie: inside a checkout the schema is named relative to it, so that the file can be
    committed; elsewhere (and for None) by the address of the installed package.
    """
    template = (TEMPLATES / f"{variant}.yaml").read_text(encoding="utf-8")
    return f"# yaml-language-server: $schema={_schema_address(folder)}\n{template}"


def _schema_address(folder: Path | None) -> str:
    checkout = SCHEMA.parents[2]
    if folder is None or not (checkout / "pyproject.toml").is_file() or not folder.is_relative_to(checkout):
        return SCHEMA.as_uri()
    up = "../" * len(folder.relative_to(checkout).parts)
    return f"{up or './'}{SCHEMA.relative_to(checkout).as_posix()}"


def _refuse_unless_free(target: Path) -> None:
    if target.exists() or target.is_symlink():
        what = "is a directory" if target.is_dir() else "exists, and xsft overwrites nothing"
        raise Refused(f"{target} {what}", fix="Name another file, or move that one away; `xsft init -` prints.")
    if not target.parent.is_dir():
        raise EnvironmentMissing(
            f"cannot write {target}: there is no folder {target.parent}", fix=f"Create it: mkdir -p {target.parent}"
        )


def _write(target: Path, text: str) -> None:
    from xsft.effects.files import write_atomic

    write_atomic(target, text)

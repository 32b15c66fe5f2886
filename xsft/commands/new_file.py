"""Writing a workload that was not there before: its first line names the schema, and nothing is overwritten."""

from __future__ import annotations

from pathlib import Path

from xsft.errors import EnvironmentMissing, Refused

SCHEMA = Path(__file__).parent.parent / "spec" / "schema.json"


def schema_line(folder: Path | None) -> str:
    """The comment that makes editors complete keys.

    `folder` is where the file will lie: inside a checkout the schema is named relative to it, so that the file can be
    committed; elsewhere (and for None) by the address of the installed package.
    """
    return f"# yaml-language-server: $schema={_schema_address(folder)}\n"


def refuse_unless_free(target: Path, *, instead: str) -> None:
    """Raises Refused where something is at `target`, EnvironmentMissing where its folder is not; `instead` is the way
    out.
    """
    if target.exists() or target.is_symlink():
        what = "is a directory" if target.is_dir() else "exists, and xsft overwrites nothing"
        raise Refused(f"{target} {what}", fix=f"Name another file, or move that one away; {instead}")
    if not target.parent.is_dir():
        raise EnvironmentMissing(
            f"cannot write {target}: there is no folder {target.parent}", fix=f"Create it: mkdir -p {target.parent}"
        )


def write_new(target: Path, text: str) -> None:
    from xsft.effects.machine.files import write_atomic

    write_atomic(target, text)


def _schema_address(folder: Path | None) -> str:
    checkout = SCHEMA.parents[2]
    if folder is None or not (checkout / "pyproject.toml").is_file() or not folder.is_relative_to(checkout):
        return SCHEMA.as_uri()
    up = "../" * len(folder.relative_to(checkout).parts)
    return f"{up or './'}{SCHEMA.relative_to(checkout).as_posix()}"

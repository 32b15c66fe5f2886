"""Write a new workload file: its first line names the schema, and no file is overwritten."""

from __future__ import annotations

from pathlib import Path

from xsft.base.errors import EnvironmentMissing, Refused

SCHEMA = Path(__file__).parent.parent / "spec" / "schema.json"


def schema_line(folder: Path | None) -> str:
    """Return the comment that makes editors complete keys.

    `folder`: where the file will be written. Inside a checkout the schema is named relative to it, so that the file can
    be committed; elsewhere (and for None) by the address of the installed package.
    """
    return f"# yaml-language-server: $schema={_schema_address(folder)}\n"


def refuse_unless_free(target: Path, *, instead: str) -> None:
    """Raise Refused if `target` exists, EnvironmentMissing if its folder does not; `instead`: the next step in the
    message."""
    if target.exists() or target.is_symlink():
        what = "is a directory" if target.is_dir() else "exists; xsft does not overwrite files"
        raise Refused(f"{target} {what}", fix=f"Choose another file, or move that one away; {instead}")
    if not target.parent.is_dir():
        raise EnvironmentMissing(
            f"cannot write {target}: the folder {target.parent} does not exist",
            fix=f"Create it: mkdir -p {target.parent}",
        )


def _schema_address(folder: Path | None) -> str:
    checkout = SCHEMA.parents[2]
    if folder is None or not (checkout / "pyproject.toml").is_file() or not folder.is_relative_to(checkout):
        return SCHEMA.as_uri()
    up = "../" * len(folder.relative_to(checkout).parts)
    return f"{up or './'}{SCHEMA.relative_to(checkout).as_posix()}"

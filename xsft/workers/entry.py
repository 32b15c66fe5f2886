"""The one entry of these programs: makes them importable, and nothing else of xsft, and runs one of them.

On this machine `python -I …/workers/entry.py PROGRAM ARGUMENT…`. In a pod, whose image has no xsft, the text of this
module is the program: `python3 -c TEXT SENT ARGUMENT…`. SENT is a JSON object with the name of the `module`, and with
the `files` that it needs, or the `archive` in the image and its `sha256`; the module finds it as its first argument.
"""

from __future__ import annotations

import hashlib
import json
import runpy
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZipFile

PACKAGES = ("xsft", "xsft.workers")


def main() -> None:
    first = sys.argv[1]
    if first.startswith("{"):
        sent = json.loads(first)
        run_program(sent["module"], folder=unpack(sent))
    else:
        del sys.argv[0]
        run_program(first, folder=Path(__file__).parent)


def unpack(sent: dict[str, Any]) -> Path:
    """Return a new folder with the programs. Ends the process if the image has others than were planned."""
    folder = Path(tempfile.mkdtemp(prefix="xsft-"))
    for name, text in sent.get("files", {}).items():
        (folder / name).write_text(text, encoding="utf-8")
    if "archive" in sent:
        archive = Path(sent["archive"])
        refuse_other(archive, sha256=sent["sha256"])
        with ZipFile(archive) as content:
            content.extractall(folder)
    return folder


def refuse_other(archive: Path, *, sha256: str) -> None:
    digest = hashlib.sha256(archive.read_bytes()).hexdigest() if archive.is_file() else None
    if digest == sha256:
        return
    state = f"has sha256 {digest}" if digest else "is missing"
    sys.exit(f"xsft: The image's {archive} {state}; the plan expects sha256 {sha256}. Push the image again and rerun.")


def run_program(module: str, *, folder: Path) -> None:
    """Run the module as the main program. Its packages are bare: the interpreter may have an xsft of its own."""
    for name in PACKAGES:
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

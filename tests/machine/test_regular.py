"""Files that others may have written: a pipe does not block a read, and no read is unbounded."""

from __future__ import annotations

import ast
import errno
import os
import socket
from pathlib import Path

import pytest

from xsft.machine.regular import open_regular, read_bytes, read_text

ROOT = Path(__file__).parents[2]
OURS_ALONE = {
    "base/secrets.py": "a file that ships with xsft",
    "catalog/data.py": "files that ship with xsft",
    "data/counted_store.py": "a file in a private folder",
    "data/token": "the cache of huggingface_hub, which is the user's own; checked as regular before",
    "image/": "files of a build context, checked as regular when they are listed",
    "environments": "folders that xsft itself made, and files that it just asked for",
    "fit/": "files that ship with xsft, and files of a temporary folder that xsft just made",
    "data/pipeline.py": "files of a temporary folder that xsft just made",
    "machine/paths.py": "the kernel's",
    "machine/filelock.py": "reservations in a private folder, and what the kernel lists",
    "machine/memory.py": "the kernel's",
    "machine/pid_namespace.py": "the kernel's",
    "planning/hub.py": "an answer over HTTP, not a file",
    "planning/installed_maxtext.py": "a file that ships with xsft",
    "runs/cause_rule.py": "a file that ships with xsft",
    "runs/causes.py": "a file that ships with xsft",
    "stages/serve_here.py": "the log of the process that xsft just started",
    "stages/verify.py": "source in an environment that xsft itself built",
    "verbs/init.py": "files that ship with xsft",
    "weights/read_arrays.py": "a store in memory",
    "workers/": "a program for another interpreter, with the files that xsft or its pod gave it",
}
"""Modules that read by themselves, and why no other user can have put a pipe there."""


def test_a_regular_file_is_read_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xc3\xa4\n")
    (tmp_path / "link").symlink_to(path)
    assert (read_text(path), read_bytes(tmp_path / "link")) == ("ä\n", b"\xc3\xa4\n")
    with open_regular(path) as file:
        assert file.read() == b"\xc3\xa4\n"


def test_a_pipe_socket_device_or_directory_is_an_error_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    unix_socket = socket.socket(socket.AF_UNIX)
    unix_socket.bind(str(tmp_path / "socket"))
    for path in (tmp_path / "pipe", tmp_path / "link", tmp_path / "socket", Path("/dev/zero")):
        with pytest.raises(OSError, match="not a file"):
            read_bytes(path)
    unix_socket.close()
    with pytest.raises(IsADirectoryError):
        read_bytes(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "none")


def test_a_file_over_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(OSError, match="more than 100 bytes") as big:
        read_bytes(path, limit=100)
    assert big.value.errno == errno.EFBIG


def test_no_other_module_opens_files_that_others_may_have_written() -> None:
    openers = {
        str(path.relative_to(ROOT / "xsft")): line
        for path in sorted((ROOT / "xsft").rglob("*.py"))
        if (line := _opens(path))
    }
    allowed = tuple(OURS_ALONE)
    assert {path: line for path, line in openers.items() if not path.startswith(allowed)} == {}
    assert all(any(path.startswith(prefix) for path in openers) for prefix in allowed)


def _opens(path: Path) -> int:
    """A line where a file is opened to be read."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        mode = [a.value for a in node.args if isinstance(a, ast.Constant)]
        method = isinstance(node.func.value, ast.Name) and node.func.value.id == "regular"
        if node.func.attr in {"read_text", "read_bytes"} and not method:
            return node.lineno
        if node.func.attr == "open" and mode[:1] in (["r"], ["rb"], []) and "os" not in ast.dump(node.func):
            return node.lineno
    return 0

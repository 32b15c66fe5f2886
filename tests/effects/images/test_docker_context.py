"""Archives of build contexts: equal files give equal bytes; a file that changes meanwhile is refused."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.steps import context
from tests.replacing import replace
from xsft.base.errors import Refused
from xsft.effects.images.docker_context import MTIME_S, entry, with_folders, write_context
from xsft.image.model import ContextFile
from xsft.image.progress import SentContext

PARTS = st.sampled_from(("a", "b", "c.py", "Dockerfile"))
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)


def tar(files: tuple[ContextFile, ...]) -> bytes:
    write_context(files, into := io.BytesIO())
    return into.getvalue()


def test_the_archive_ignores_owner_time_and_mode_of_the_checkout(tmp_path: Path) -> None:
    wanted = {"z/y.py": "print()", "a": "1", "empty": ""}
    one = context(tmp_path / "one", wanted)
    other = context(tmp_path / "other", dict(reversed(wanted.items())))
    os.utime(tmp_path / "other" / "a", (1, 1))
    (tmp_path / "other" / "a").chmod(0o600)
    assert tar(one) == tar(other)


def test_the_archive_contains_folders_files_and_links_with_fixed_metadata(tmp_path: Path) -> None:
    (script,) = context(tmp_path, {"bin/run": "x"})
    link = ContextFile(path="here", kind="link", target="bin/run")
    content = tar((link, replace(script, executable=True)))
    with tarfile.open(fileobj=io.BytesIO(content)) as found:
        rows = [(m.name, m.mode, m.uid, m.mtime, m.linkname) for m in found.getmembers()]
        assert found.extractfile("bin/run").read() == b"x"  # type: ignore[union-attr]
    assert rows == [
        ("bin", 0o755, 0, MTIME_S, ""),
        ("bin/run", 0o755, 0, MTIME_S, ""),
        ("here", 0o777, 0, MTIME_S, "bin/run"),
    ]


@given(st.lists(PATHS, max_size=8))
def test_with_folders_lists_each_folder_once_before_its_files(paths: list[str]) -> None:
    made = [file.path for file in with_folders([ContextFile(path=path, kind="file") for path in paths])]
    assert len(made) == len(set(made))
    assert set(paths) <= set(made)
    for path in made:
        parent = path.rpartition("/")[0]
        assert not parent or made.index(parent) < made.index(path)


@pytest.mark.parametrize(("now", "why"), [("longer than before", "longer"), ("s", "shorter"), ("other", "different")])
def test_a_file_that_changed_since_it_was_hashed_is_refused(tmp_path: Path, now: str, why: str) -> None:
    files = context(tmp_path, {"a": "first"})
    (tmp_path / "a").write_text(now)
    with pytest.raises(Refused, match=why) as refused:
        tar(files)
    assert (refused.value.problem_id, refused.value.exit_status) == ("context-changed", 4)


def test_a_file_deleted_since_it_was_hashed_is_refused(tmp_path: Path) -> None:
    files = context(tmp_path, {"a": "first"})
    (tmp_path / "a").unlink()
    with pytest.raises(Refused, match="No such file"):
        tar(files)


def test_write_context_reports_the_bytes_sent(tmp_path: Path) -> None:
    told: list[SentContext] = []
    write_context(context(tmp_path, {"a": b"1" * 10, "b": b"2" * 30}), io.BytesIO(), on_sent=told.append)
    assert told == [SentContext(bytes=10, total=40), SentContext(bytes=40, total=40)]


def test_a_large_context_is_not_held_in_memory(tmp_path: Path) -> None:
    class Nowhere(io.RawIOBase):
        largest = 0

        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            size = len(data)  # type: ignore[arg-type]
            self.largest = max(self.largest, size)
            return size

    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(64 << 20)
    into = Nowhere()
    write_context((ContextFile(path="large", kind="file", size=64 << 20, source=str(path)),), into)  # type: ignore[arg-type]
    assert 0 < into.largest < 1 << 20


def test_entries_are_dated_after_1980_for_zip() -> None:
    assert entry(ContextFile(path="a", kind="folder")).mtime > 315_532_800 + 14 * 3600

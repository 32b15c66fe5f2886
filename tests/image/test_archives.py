"""Archives: equal files give equal bytes, on any machine; a file that changes meanwhile is refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from tests.engine.steps import context
from tests.replacing import replace
from xsft.base.errors import Refused
from xsft.image.archives import MTIME_S, layer_archive, write_tar
from xsft.image.context import ContextFile


def tar(files: tuple[ContextFile, ...]) -> bytes:
    write_tar(files, into := io.BytesIO())
    return into.getvalue()


def test_the_archive_ignores_owner_time_mode_and_order_of_the_checkout(tmp_path: Path) -> None:
    wanted = {"z/y.py": "print()", "a": "1", "empty": ""}
    one = context(tmp_path / "one", wanted)
    other = context(tmp_path / "other", dict(reversed(wanted.items())))
    os.utime(tmp_path / "other" / "a", (1, 1))
    (tmp_path / "other" / "a").chmod(0o600)
    assert tar(one) == tar(other)


def test_the_archive_contains_folders_files_and_links_with_fixed_metadata(tmp_path: Path) -> None:
    (script,) = context(tmp_path, {"bin/run": "x"})
    link = ContextFile(path="here", kind="link", target="bin/run")
    content = tar((link, replace(script, executable=True), ContextFile(path="bin/.wh.old", kind="file")))
    with tarfile.open(fileobj=io.BytesIO(content)) as found:
        rows = [(m.name, m.mode, m.uid, m.mtime, m.linkname) for m in found.getmembers()]
        assert found.extractfile("bin/run").read() == b"x"  # type: ignore[union-attr]
    assert rows == [
        ("bin", 0o755, 0, MTIME_S, ""),
        ("bin/.wh.old", 0o644, 0, MTIME_S, ""),
        ("bin/run", 0o755, 0, MTIME_S, ""),
        ("here", 0o777, 0, MTIME_S, "bin/run"),
    ]
    assert MTIME_S > 315_532_800 + 14 * 3600, "a zip holds no time before 1980"


def test_a_layer_has_the_digests_of_its_tar_and_of_its_bytes(tmp_path: Path) -> None:
    files = context(tmp_path, {"a/b": "x" * 1000})
    layer, content = layer_archive(files)
    assert gzip.decompress(content) == tar(files)
    assert layer.diff_id == f"sha256:{hashlib.sha256(tar(files)).hexdigest()}"
    assert (layer.digest, layer.size) == (f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))
    assert content[4:8] == bytes(4), "no time"


@pytest.mark.parametrize("now", ["longer than before", "s", "other"])
def test_a_file_that_changed_since_it_was_hashed_is_refused(tmp_path: Path, now: str) -> None:
    files = context(tmp_path, {"a": "first"})
    (tmp_path / "a").write_text(now)
    with pytest.raises(Refused, match="different") as refused:
        tar(files)
    assert (refused.value.problem_id, refused.value.exit_status) == ("context-changed", 4)


def test_a_file_deleted_since_it_was_hashed_is_refused(tmp_path: Path) -> None:
    files = context(tmp_path, {"a": "first"})
    (tmp_path / "a").unlink()
    with pytest.raises(Refused, match="No such file"):
        tar(files)


def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
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
    write_tar((ContextFile(path="large", kind="file", size=64 << 20, source=str(path)),), into)  # type: ignore[arg-type]
    assert 0 < into.largest < 1 << 20

import errno
import io
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.base.errors import EnvironmentMissing, SpecError, UsageError
from xsft.base.problems import Problem
from xsft.machine.files import MAX_BYTES, OLD_S, read_workload_text, sweep, write_atomic, write_private
from xsft.records.index import IndexEntry, keep_entry, read_index
from xsft.spec.yamltext import parse_yaml

KILLED = """
import os, signal, sys
from xsft.machine.files import write_atomic
write_atomic(sys.argv[1], b"{}", write=lambda *_: os.kill(os.getpid(), signal.SIGKILL))
"""


def problem_of(path: str | Path, **fakes: object) -> Problem:
    with pytest.raises(SpecError) as caught:
        read_workload_text(path, **fakes)  # type: ignore[arg-type]
    (problem,) = caught.value.problems
    assert problem.file == str(path)
    assert problem.fix
    return problem


def test_read_workload_text_removes_the_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbfname: \xc3\xa9\r\n")
    assert read_workload_text(tmp_path / "a.yaml") == "name: é\r\n"


def test_an_empty_name_is_reported_as_missing() -> None:
    assert (problem_of("").id, problem_of("").message) == ("file-missing", "the file's name is empty")


def test_a_missing_file_suggests_a_file_with_a_similar_name(tmp_path: Path) -> None:
    (tmp_path / "tiny_local.yaml").write_text("a: 1")
    problem = problem_of(tmp_path / "tiny_locl.yaml")
    assert problem.id == "file-missing"
    assert str(tmp_path / "tiny_local.yaml") in problem.fix
    assert problem_of(tmp_path / "no" / "x.yaml").id == "file-missing"


@pytest.mark.parametrize(
    ("content", "id"),
    [
        (b"", "file-empty"),
        (b" \n\n", "file-empty"),
        ("a: 1".encode("utf-16"), "file-encoding"),
        ("a: 1".encode("utf-32"), "file-encoding"),
        (b"a: 1\nb: \xff\n", "file-encoding"),
    ],
    ids=["empty", "blank lines", "UTF-16", "UTF-32", "invalid byte"],
)
def test_empty_or_undecodable_content_is_reported(tmp_path: Path, content: bytes, id: str) -> None:
    (tmp_path / "w.yaml").write_bytes(content)
    assert problem_of(tmp_path / "w.yaml").id == id


def test_a_byte_that_is_not_utf_8_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_bytes(b"a: 1\nb: \xff\n")
    assert "line 2 contains the byte 0xff" in problem_of(tmp_path / "w.yaml").message


def test_a_directory_link_loop_pipe_or_device_is_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    assert problem_of(tmp_path).id == "file-directory"
    assert problem_of(tmp_path / "pipe.yaml").id == "file-not-regular"
    assert problem_of("/dev/zero").id == "file-not-regular"
    assert problem_of(tmp_path / "loop.yaml").id == "file-unreadable"
    assert problem_of("nul\0.yaml").id == "file-unreadable"
    assert problem_of("x" * 5000).id == "file-unreadable"


def test_a_file_of_100_mb_is_refused_without_being_read(tmp_path: Path) -> None:
    with (tmp_path / "big.yaml").open("wb") as file:
        file.truncate(100_000_000)
    start = time.process_time()
    problem = problem_of(tmp_path / "big.yaml", open_fd=_must_not_open)
    assert problem.id == "file-too-big"
    assert "100,000,000 bytes" in problem.message
    assert time.process_time() - start < 0.5


def _must_not_open(name: str, flags: int) -> int:
    raise AssertionError(name)


def test_a_file_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_bytes(b"#" * MAX_BYTES)
    assert len(read_workload_text(tmp_path / "w.yaml")) == MAX_BYTES


def test_an_unreadable_file_is_reported_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("a: 1")

    def denied(name: str, flags: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)

    problem = problem_of(tmp_path / "w.yaml", open_fd=denied)
    assert problem.id == "file-unreadable"
    assert "Permission denied" in problem.message


def test_a_file_without_read_permission_is_unreadable(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads every file: the refusal is tested with a fake opener above, not with real permissions")
    (tmp_path / "w.yaml").write_text("a: 1")
    (tmp_path / "w.yaml").chmod(0)
    assert problem_of(tmp_path / "w.yaml").id == "file-unreadable"


class Endless(io.RawIOBase):
    def read(self, size: int = -1) -> bytes:
        assert size > 0, "standard input must be read with a bound"
        return b"#" * size


def test_standard_input_is_read_up_to_the_limit() -> None:
    assert read_workload_text("-", stdin=io.BytesIO(b"a: 1")) == "a: 1"
    assert problem_of("-", stdin=Endless()).id == "file-too-big"
    assert problem_of("-", stdin=io.BytesIO(b"")).id == "file-empty"


@given(st.binary(max_size=100))
def test_any_bytes_give_a_mapping_or_a_spec_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "w.yaml").write_bytes(content)
    try:
        outcome: object = parse_yaml(read_workload_text(tmp_path / "w.yaml")).data
    except SpecError as refused:
        outcome = refused.problems
    assert isinstance(outcome, dict) or (isinstance(outcome, tuple) and outcome)


def test_write_atomic_replaces_the_content_and_keeps_permissions(tmp_path: Path) -> None:
    target = tmp_path / "r.json"
    target.write_text("old")
    target.chmod(0o640)
    write_atomic(target, "new é")
    assert target.read_bytes() == "new é".encode()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["r.json"]


def test_write_atomic_follows_a_link_and_continues_after_short_writes(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_atomic(tmp_path / "link", b"0123456789", write=lambda fd, data: os.write(fd, data[:3]))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"0123456789"


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_full_disk_or_ctrl_c_keeps_the_old_content_and_leaves_no_other_file(
    tmp_path: Path, failure: BaseException
) -> None:
    target = tmp_path / "r.json"
    target.write_text("old")

    def fails_half_way(fd: int, data: bytes) -> int:
        if len(data) == 10:
            return os.write(fd, data[:5])
        raise failure

    with pytest.raises((EnvironmentMissing, KeyboardInterrupt)) as caught:
        write_atomic(target, b"0123456789", write=fails_half_way)
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["r.json"]
    if isinstance(caught.value, EnvironmentMissing):
        assert "the disk is full" in caught.value.message
        assert "df -h" in caught.value.fix


def test_write_atomic_reports_a_full_device(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system: the full disk is tested with a fake writer above only")
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        with pytest.raises(EnvironmentMissing, match="the disk is full"):
            write_atomic(tmp_path / "r.json", b"x", write=lambda _, data: os.write(full, data))
    finally:
        os.close(full)
    assert os.listdir(tmp_path) == []


def test_write_atomic_reports_a_directory_and_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        write_atomic(tmp_path, b"x")
    with pytest.raises(EnvironmentMissing) as caught:
        write_atomic(tmp_path / "no" / "x", b"x")
    assert f"mkdir -p {tmp_path / 'no'}" in caught.value.fix
    with pytest.raises(EnvironmentMissing):
        write_atomic("nul\0", b"x")


@pytest.mark.parametrize("durable", [True, False])
def test_write_atomic_syncs_only_durable_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, durable: bool
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    write_atomic(tmp_path / "file", "content", durable=durable)
    assert (tmp_path / "file").read_text() == "content"
    assert bool(synced) is durable


def killed_while_writing(target: Path) -> Path:
    """The file that is left of it."""
    done = subprocess.run((sys.executable, "-c", KILLED, str(target)), check=False)
    assert done.returncode == -signal.SIGKILL
    (temporary,) = target.parent.glob(".*.tmp")
    return temporary


def aged(path: Path, seconds: float) -> None:
    modified_at = time.time() - seconds
    os.utime(path, (modified_at, modified_at))


def test_the_next_keep_entry_sweeps_the_file_of_a_killed_writer(tmp_path: Path) -> None:
    temporary = killed_while_writing(tmp_path / "gemma-0123.json")
    keep_entry(tmp_path, IndexEntry(run_name="a", target="xpk", output="gs://b/r"))
    assert not temporary.exists()  # a living writer would hold the lock
    assert [entry.run_name for entry in read_index(tmp_path).entries] == ["a"]


def test_the_next_private_file_sweeps_the_old_one_of_a_killed_writer(tmp_path: Path) -> None:
    temporary = killed_while_writing(tmp_path / "known.jsonl")
    write_private(tmp_path / "other.jsonl", "x")
    assert temporary.exists()  # its writer may be at it
    aged(temporary, OLD_S + 60)
    write_private(tmp_path / "other.jsonl", "x")
    assert not temporary.exists()


def test_sweeping_continues_if_a_file_disappears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its writer renamed the file after it was listed."""
    for name in ("a", "b", "c"):
        path = tmp_path / f".{name}.json.0123456789ab.tmp"
        path.write_text("x", encoding="utf-8")
        aged(path, 10 * OLD_S)
    gone: list[Path] = []

    def unlink(path: Path, missing_ok: bool = False) -> None:
        gone.append(path)
        if len(gone) == 1:
            raise FileNotFoundError
        os.unlink(path)

    monkeypatch.setattr(Path, "unlink", unlink)
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == gone[:1]


def test_sweeping_keeps_all_other_files(tmp_path: Path) -> None:
    names = ("notes.tmp", ".notes.tmp", ".a.0123456789AB.tmp", ".a.json.0123456789abc.tmp", "a.json", ".lock")
    for name in names:
        (tmp_path / name).write_text("x", encoding="utf-8")
        aged(tmp_path / name, 10 * OLD_S)
    (tmp_path / ".a.json.0123456789ab.tmp").mkdir()
    outside = tmp_path / "outside"
    outside.write_text("x", encoding="utf-8")
    (tmp_path / ".b.json.0123456789ab.tmp").symlink_to(outside)
    before = sorted(tmp_path.iterdir())
    sweep(tmp_path, older_s=-1.0)
    assert sorted(tmp_path.iterdir()) == before
    sweep(tmp_path / "nothing")

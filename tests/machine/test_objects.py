"""Objects are written once, completely or not at all, on this machine and in a bucket, with every failure."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client

from tests.fakes.gcs import Bucket, Failure
from xsft.base.errors import EnvironmentMissing, Unreachable
from xsft.base.names import FIX
from xsft.machine.objects import (
    PAUSES_S,
    SEND_TIMEOUT_S,
    BucketSettings,
    GcsObjects,
    LocalObjects,
    Objects,
    latest_step,
    objects_for,
)
from xsft.machine.storage import MAX_FILES, GcsStorage, LocalStorage, StoredObject, storage_for


def remote(bucket: Bucket, *, slept: list[float] | None = None, deadline_s: float = 10.0) -> GcsObjects:
    sleep = slept.append if slept is not None else _no_sleep
    return GcsObjects(client_of(bucket), sleep=sleep, deadline_s=deadline_s)


def client_of(bucket: Bucket) -> Client:
    return Client(project="p", credentials=AnonymousCredentials(), client_options={"api_endpoint": bucket.url})


def _no_sleep(_: float) -> None:
    """Tests do not wait."""


@pytest.fixture(params=["here", "bucket"])
def place(request: pytest.FixtureRequest, bucket: Bucket, tmp_path: Path) -> tuple[Objects, str]:
    return (LocalObjects(), str(tmp_path)) if request.param == "here" else (remote(bucket), "gs://my-bucket/runs")


def test_create_writes_an_object_once_and_never_overwrites_it(place: tuple[Objects, str]) -> None:
    objects, root = place
    assert objects.create(f"{root}/a/b/c.json", b"first") is True
    assert objects.create(f"{root}/a/b/c.json", b"second") is False
    assert objects.read(f"{root}/a/b/c.json", limit=99) == b"first"
    assert objects.read(f"{root}/a/b/c.json", limit=2) == b"fi"
    assert objects.read(f"{root}/a/b/none", limit=9) is None
    assert objects.names(f"{root}/a/b") == ("c.json",)
    assert objects.names(f"{root}/a") == ("b/",)
    assert objects.names(f"{root}/none") == ()
    assert list(objects.written(f"{root}/a/b")) == ["c.json"]
    assert objects.written(f"{root}/a") == objects.written(f"{root}/none") == {}


def test_storage_reads_parts_of_files_sizes_and_folders(place: tuple[Objects, str], bucket: Bucket) -> None:
    objects, root = place
    for name in ("b/c.json", "d/e.json", "d/f/c.json", "c.json", "g/x/c.json", "g/c.json"):
        objects.create(f"{root}/a/{name}", b"0123456789")
    storage = LocalStorage() if isinstance(objects, LocalObjects) else GcsStorage(client_of(bucket))
    assert storage.read(f"{root}/a/c.json", limit=3, start=4) == b"456"
    assert (storage.size(f"{root}/a"), storage.size(f"{root}/none")) == (60, 0)
    assert storage.folders_with(f"{root}/a", ("c.json", "y")) == ("b", "g")
    assert storage.folders_with(f"{root}/none", ("c.json",)) == ()


@pytest.mark.parametrize(("limit", "size"), [(1, None), (2, 3), (3, 3)])
def test_the_size_of_a_folder_with_more_files_than_the_limit_is_unknown(
    tmp_path: Path, limit: int, size: int | None
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "1").write_bytes(b"1")
    (tmp_path / "a" / "b" / "2").write_bytes(b"22")
    assert LocalStorage(max_files=limit).size(str(tmp_path)) == size


def test_listing_more_names_than_the_limit_is_an_error(place: tuple[Objects, str], bucket: Bucket) -> None:
    objects, root = place
    storage = (
        LocalStorage(max_names=2) if isinstance(objects, LocalObjects) else GcsStorage(client_of(bucket), max_names=2)
    )
    for name in ("1", "2", "3/4", "5"):
        objects.create(f"{root}/a/{name}", b"")
        if name == "2":
            assert storage.names(f"{root}/a") == ("1", "2")
        if name == "3/4":
            with pytest.raises(Unreachable, match="more than 2 entries") as caught:
                storage.names(f"{root}/a")
            assert caught.value.fix.startswith("Check that it is a run's folder")


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b"])
def test_reading_a_name_that_no_file_system_accepts_is_unreachable(name: str) -> None:
    read_name: tuple[Callable[[str], object], ...] = (
        LocalStorage().names,
        lambda path: LocalStorage().read(path, limit=1),
    )
    for ask in read_name:
        with pytest.raises(Unreachable, match=r"^/a"):
            ask(f"/{name}")


def test_a_placeholder_bucket_gets_no_request(tmp_path: Path) -> None:
    with pytest.raises(Unreachable) as caught:
        storage_for("gs://my-bucket/a", env={"HOME": str(tmp_path)})
    (problem,) = caught.value.problems
    assert (problem.id, problem.again, problem.fix) == ("place-placeholder", "never", FIX)
    assert not problem.message.endswith(".")


def test_written_returns_the_time_of_each_file(tmp_path: Path, bucket: Bucket) -> None:
    (tmp_path / "a").touch()
    os.utime(tmp_path / "a", (5, 5))
    (tmp_path / "b").symlink_to(tmp_path / "none")
    assert LocalObjects().written(str(tmp_path)) == {"a": 5.0, "b": None}
    bucket.objects |= {"f/a": b"", "f/b": b"", "f/g/c": b""}
    bucket.updated["f/a"] = "1970-01-01T00:00:05.250Z"
    assert remote(bucket).written("gs://my-bucket/f") == {"a": 5.25, "b": None}


def test_exactly_one_of_several_concurrent_writers_wins(place: tuple[Objects, str]) -> None:
    objects, root = place
    start, won = Barrier(6), []

    def write(content: bytes) -> None:
        start.wait()
        if objects.create(f"{root}/one.json", content):
            won.append(content)

    threads = [Thread(target=write, args=(bytes([65 + n]) * 1000,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert objects.read(f"{root}/one.json", limit=9999) == won[0]
    assert objects.names(root) == ("one.json",)


def test_a_full_disk_is_reported_and_leaves_no_file(tmp_path: Path) -> None:
    def full(fd: int, content: bytes) -> int:
        if os.fstat(fd).st_size:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(fd, content[:4])

    for objects in (LocalObjects(write=full), LocalObjects(write=full, link=_no_links)):
        with pytest.raises(EnvironmentMissing, match="the disk is full") as caught:
            objects.create(str(tmp_path / "a.json"), b"content")
        assert "df -h" in caught.value.fix
        assert list(tmp_path.iterdir()) == []


def test_a_killed_writer_leaves_no_object_and_the_next_can_write(tmp_path: Path) -> None:
    reader, child = os.pipe(), 0
    child = os.fork()
    if child == 0:

        def killed(fd: int, content: bytes) -> int:
            os.write(fd, content[:4])
            os.write(reader[1], b"x")
            os.kill(os.getpid(), 9)
            return 0

        LocalObjects(write=killed).create(str(tmp_path / "a.json"), b"content")
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert os.read(reader[0], 1) == b"x"
    for end in reader:
        os.close(end)
    assert LocalObjects().read(str(tmp_path / "a.json"), limit=9) is None
    assert LocalObjects().create(str(tmp_path / "a.json"), b"content")


def _no_links(*_: object) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


def test_create_works_on_a_file_system_without_links(tmp_path: Path) -> None:
    objects = LocalObjects(link=_no_links)
    assert objects.create(str(tmp_path / "a"), b"first") is True
    assert objects.create(str(tmp_path / "a"), b"second") is False
    assert (tmp_path / "a").read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_a_full_disk_without_links_leaves_no_file(tmp_path: Path) -> None:
    writes = iter((7, 4, 0))

    def full(fd: int, content: bytes) -> int:
        if not (size := next(writes)):
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(fd, content[:size])

    with pytest.raises(EnvironmentMissing, match="the disk is full"):
        LocalObjects(write=full, link=_no_links).create(str(tmp_path / "a"), b"content")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_reported_even_if_the_file_vanishes(tmp_path: Path) -> None:
    def full(fd: int, content: bytes) -> int:
        if not (tmp_path / "a").exists():  # the hidden file, which cannot be linked
            return os.write(fd, content)
        (tmp_path / "a").unlink()
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(EnvironmentMissing, match="the disk is full"):
        LocalObjects(write=full, link=_no_links).create(str(tmp_path / "a"), b"content")


def test_create_syncs_a_file_and_its_name_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that loses power afterwards has the record."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    LocalObjects().create(str(tmp_path / "a"), b"content")
    assert synced == [(tmp_path / "a").stat().st_ino, tmp_path.stat().st_ino]


def test_create_writes_nothing_if_its_link_fails(tmp_path: Path) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(EnvironmentMissing) as caught:
        LocalObjects(link=broken).create(str(tmp_path / "a"), b"content")
    assert caught.value.message == f"cannot write {tmp_path / 'a'}: Input/output error"
    assert caught.value.fix == f"Check write permission for {tmp_path}."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b", "file/below"])
def test_writing_a_name_that_no_file_system_accepts_is_reported(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentMissing, match="cannot write") as caught:
        LocalObjects().create(f"{tmp_path}/{name}", b"x")
    assert (caught.value.message + caught.value.fix).isprintable()


def test_latest_step_returns_the_newest_complete_checkpoint(place: tuple[Objects, str]) -> None:
    objects, root = place
    marker = "commit_success.txt" if root.startswith("gs://") else "_CHECKPOINT_METADATA"
    for name in (f"5/{marker}", f"10/{marker}", f"9/{marker}", "20/part", f"30.tmp/{marker}", "40"):
        objects.create(f"{root}/run/checkpoints/{name}", b"")
    objects.create(f"{root}/early/checkpoints/5/{marker}", b"")
    assert latest_step(objects, output=root, run_name="early") == 5
    for output in (root, f"{root}/"):
        assert latest_step(objects, output=output, run_name="run") == 10
    assert latest_step(objects, output=root, run_name="other") is None


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("ask", "method"),
    [
        (lambda o: o.create("gs://my-bucket/a", b"x"), "POST"),
        (lambda o: o.create_from("gs://my-bucket/a", Path(os.devnull)), "POST"),
        (lambda o: o.names("gs://my-bucket"), "GET"),
    ],
    ids=["create", "create from file", "names"],
)
def test_a_busy_bucket_is_retried_a_limited_number_of_times(
    ask: Callable[[GcsObjects], object], method: str, status: int, bucket: Bucket
) -> None:
    slept: list[float] = []
    bucket.failures += [Failure(status=status, headers=(("Retry-After", "3"),)), Failure(status=status)]
    assert ask(remote(bucket, slept=slept)) in (True, ())
    assert slept == [3.0, 1.0]
    bucket.failures += [Failure(status=status) for _ in range(9)]
    with pytest.raises(Unreachable, match=f"HTTP {status}"):
        ask(remote(bucket, slept=slept))
    assert slept[2:] == list(PAUSES_S)
    assert len([line for line in bucket.questions if line.startswith(method)]) == 3 + len(PAUSES_S) + 1


def test_a_write_whose_response_is_lost_is_not_overwritten(bucket: Bucket) -> None:
    bucket.failures.append(Failure(match="POST", cut=True))
    objects = remote(bucket)
    assert not objects.create("gs://my-bucket/a", b"mine")
    assert objects.read("gs://my-bucket/a", limit=9) == b"mine"


def test_a_missing_permission_is_named_and_not_retried(bucket: Bucket) -> None:
    bucket.status = 403
    with pytest.raises(Unreachable, match=r"permission denied \(HTTP 403\)") as caught:
        remote(bucket).create("gs://my-bucket/a", b"x")
    assert caught.value.fix.startswith("Ask for storage.objects.create on the bucket")
    with pytest.raises(Unreachable) as caught:
        remote(bucket).create_from("gs://my-bucket/a", Path(__file__))
    assert caught.value.fix.startswith("Ask for storage.objects.create on the bucket")
    with pytest.raises(Unreachable) as caught:
        remote(bucket).names("gs://my-bucket/a")
    assert "roles/storage.objectUser" in caught.value.fix
    assert len(bucket.questions) == 3


def test_writing_to_a_missing_bucket_names_the_create_command(bucket: Bucket) -> None:
    with pytest.raises(EnvironmentMissing, match="the bucket other-bucket does not exist") as caught:
        remote(bucket).create("gs://other-bucket/a", b"x")
    assert "gcloud storage buckets create gs://other-bucket" in caught.value.fix
    nothing = BucketSettings(location="", retention_s=0, requester_pays=False, deleted_after={})
    assert remote(bucket).settings("other-bucket") == nothing
    assert remote(bucket).read("gs://other-bucket/a", limit=9) is None


def test_a_silent_bucket_is_unreachable_after_the_deadline(bucket: Bucket) -> None:
    bucket.delay_s = 1
    with pytest.raises(Unreachable, match=r"no answer within 0\.1 s"):
        remote(bucket, deadline_s=0.1).create("gs://my-bucket/a", b"x")


def test_create_sends_300_kb_completely(bucket: Bucket) -> None:
    content = os.urandom(300_000)
    assert remote(bucket).create("gs://my-bucket/a", content)
    assert bucket.objects == {"a": content}


def test_the_stand_in_takes_resumable_uploads_with_preconditions(bucket: Bucket) -> None:
    from google.api_core.exceptions import PreconditionFailed

    content = os.urandom(600_000)
    blob = client_of(bucket).bucket("my-bucket").blob("a", chunk_size=256 * 1024)
    blob.upload_from_string(content, if_generation_match=0, retry=None)
    assert bucket.objects == {"a": content}
    with pytest.raises(PreconditionFailed):
        blob.upload_from_string(b"x" * 300_000, if_generation_match=0, retry=None)


ONCE = {"timeout": 7.0, "retry": None}
"""Of every request: its own time limit, and no retries of the library, whose own last for minutes."""
LISTED = {"prefix": "a/", **ONCE}
ASKED: dict[str, tuple[Callable[[GcsObjects, GcsStorage], object], dict[str, object]]] = {
    "read": (
        lambda _, s: s.read("gs://b/a", limit=4, start=5),
        {"start": 5, "end": 8, "checksum": None, **ONCE},
    ),
    "read among objects": (lambda o, _: o.read("gs://b/a", limit=4), {"start": 0, "end": 3, "checksum": None, **ONCE}),
    "names": (lambda _, s: s.names("gs://b/a"), {"delimiter": "/", **LISTED}),
    "names of a bucket": (lambda _, s: s.names("gs://b"), {"delimiter": "/", **LISTED, "prefix": ""}),
    "written": (lambda o, _: o.written("gs://b/a"), {"delimiter": "/", **LISTED}),
    "written in a bucket": (lambda o, _: o.written("gs://b"), {"delimiter": "/", **LISTED, "prefix": ""}),
    "folders": (
        lambda _, s: s.folders_with("gs://b/a", ("x", "y")),
        {"match_glob": "**/{x,y}", "max_results": 3, **LISTED},
    ),
    "size": (lambda _, s: s.size("gs://b/a"), {"max_results": MAX_FILES + 1, **LISTED}),
    "size of a bucket": (lambda _, s: s.size("gs://b"), {"max_results": MAX_FILES + 1, **LISTED, "prefix": ""}),
    "objects": (lambda _, s: s.objects("gs://b/a/"), {"max_results": MAX_FILES, **LISTED}),
    "settings": (lambda o, _: o.settings("b"), ONCE),
    "permissions": (lambda o, _: o.held_permissions("b", ("p",)), ONCE),
    "create": (
        lambda o, _: o.create("gs://b/a", b"x"),
        {"content_type": "application/json", "if_generation_match": 0, **ONCE},
    ),
    "create from a file": (
        lambda o, _: o.create_from("gs://b/a", Path("x")),
        {"if_generation_match": 0, "retry": None, "timeout": SEND_TIMEOUT_S, "checksum": "crc32c"},
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_every_request_carries_its_options(name: str) -> None:
    ask, options = ASKED[name]
    client = MagicMock(spec=Client)
    client.bucket.return_value.blob.return_value.download_as_bytes.return_value = b"x"
    ask(GcsObjects(client, timeout_s=7.0), GcsStorage(client, timeout_s=7.0, max_names=3))
    (kwarg,) = [kwargs for _, _, kwargs in client.mock_calls if kwargs]
    assert kwarg == options


@pytest.mark.parametrize(("count", "size"), [(MAX_FILES, MAX_FILES), (MAX_FILES + 1, None)])
def test_size_is_none_over_the_maximum_number_of_files(count: int, size: int | None) -> None:
    client = MagicMock(spec=Client)
    client.list_blobs.return_value = [SimpleNamespace(size="1")] * count
    assert GcsStorage(client).size("gs://b/a") == size


def test_a_request_has_the_given_deadline(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.url)
    bucket.delay_s = 1
    storage = storage_for("gs://my-bucket/a", env={"STORAGE_EMULATOR_HOST": bucket.url}, deadline_s=0.05)
    with pytest.raises(Unreachable, match=r"no answer within 0\.05 s"):
        storage.names("gs://my-bucket/a")


def test_objects_returns_path_size_and_checksum() -> None:
    client = MagicMock(spec=Client)
    client.list_blobs.return_value = [SimpleNamespace(name="a/1", size="5", crc32c="AAAAAA==")]
    stored = GcsStorage(client).objects("gs://b/a/")
    assert stored == (StoredObject(path="gs://b/a/1", size=5, crc32c="AAAAAA=="),)


def test_objects_for_chooses_the_store_by_the_scheme(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.url)  # the library asks the process's environment
    assert isinstance(objects_for(str(tmp_path), env={}), LocalObjects)
    assert isinstance(objects_for("gs://my-bucket/a", env={"STORAGE_EMULATOR_HOST": bucket.url}), GcsObjects)
    with pytest.raises(Unreachable, match="no Google Cloud login"):
        objects_for("gs://my-bucket/a", env={"HOME": str(tmp_path / "nobody")})


def test_create_from_sends_a_large_file_once_and_never_overwrites(bucket: Bucket, tmp_path: Path) -> None:
    """9 MB need several requests; the first is answered with 503, and the second response is lost."""
    file = tmp_path / "shard.parquet"
    file.write_bytes(os.urandom(1024) * 9 * 1024)
    bucket.failures += [Failure(match="POST /upload", status=503), Failure(match="PUT /upload", cut=True)]
    objects = remote(bucket)
    assert not objects.create_from("gs://my-bucket/data/shard.parquet", file), "the lost answer had written it"
    assert bucket.objects["data/shard.parquet"] == file.read_bytes()
    assert not objects.create_from("gs://my-bucket/data/shard.parquet", file)
    with pytest.raises(EnvironmentMissing, match="the bucket other does not exist"):
        objects.create_from("gs://other/shard.parquet", file)


def test_create_from_sends_a_small_file(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"rows")
    assert remote(bucket).create_from("gs://my-bucket/a", tmp_path / "a")
    assert bucket.objects["a"] == b"rows"

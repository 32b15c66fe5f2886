"""Reads of files on this machine and in a bucket: bounded, and with one kind of error."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.gcs import Bucket, Failure, serving
from xsft.base.errors import Unreachable
from xsft.machine.objects import LocalObjects, latest_step, objects_for
from xsft.machine.parallel import call_within
from xsft.machine.storage import GcsStorage, LocalStorage, gcs_client, gcs_storage, storage_for

pytestmark = pytest.mark.loopback

OBJECTS = {"a/file": b"0123456789", "a/b/c": b"x", "a/empty": b"", "a/d/e/f": b"y"}


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with serving(Bucket(OBJECTS)) as served:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", served.url)
        yield served


def client() -> GcsStorage:
    return gcs_storage(os.environ)


@pytest.mark.early
def test_a_bucket_is_read_and_listed_like_a_folder(bucket: Bucket, tmp_path: Path) -> None:
    for name, content in OBJECTS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    for storage, root in ((client(), f"gs://{bucket.name}"), (LocalStorage(), str(tmp_path))):
        assert storage.read(f"{root}/a/file", limit=4) == b"0123"
        assert storage.read(f"{root}/a/file", limit=99) == b"0123456789"
        assert storage.read(f"{root}/a/empty", limit=99) == b""
        assert storage.read(f"{root}/a/none", limit=99) is None
        assert storage.read(f"{root}/a/b", limit=99) is None
        assert storage.names(f"{root}/a") == ("b/", "d/", "empty", "file")
        assert storage.names(f"{root}/none") == ()
        assert storage.names(f"{root}/a/file") == ()


def test_a_folder_of_thousands_is_listed_completely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are sorted as text: of 2,400 checkpoints, the last is not among the first 1,000."""
    steps = {f"run/checkpoints/{5 * n}/commit_success.txt": b"" for n in range(1, 2401)}
    for n in range(1, 2401):
        (tmp_path / "run" / "checkpoints" / str(5 * n)).mkdir(parents=True)
    (tmp_path / "run" / "checkpoints" / "12000" / "_CHECKPOINT_METADATA").touch()
    with serving(Bucket(steps)) as served:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", served.url)
        objects = objects_for("gs://my-bucket", env=os.environ)
        for storage in (client(), objects):
            assert len(storage.names("gs://my-bucket/run/checkpoints")) == 2400
        assert latest_step(objects, output="gs://my-bucket", run_name="run") == 12000
    assert latest_step(LocalObjects(), output=str(tmp_path), run_name="run") == 12000


def test_listing_more_names_than_the_limit_is_unreachable(bucket: Bucket, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    remote = GcsStorage(gcs_client(os.environ), max_names=2)
    for storage, folder in ((remote, "gs://my-bucket/a"), (LocalStorage(max_names=2), str(tmp_path))):
        with pytest.raises(Unreachable, match="more than 2 entries"):
            storage.names(folder)


def test_a_missing_bucket_is_empty(bucket: Bucket) -> None:
    assert client().read("gs://other-bucket/a", limit=9) is None
    assert client().names("gs://other-bucket") == ()


def test_permission_denied_names_the_permission_to_ask_for(bucket: Bucket) -> None:
    bucket.status = 403
    with pytest.raises(Unreachable, match=r"permission denied \(HTTP 403\)") as caught:
        client().read("gs://my-bucket/a/file", limit=9)
    assert "storage.objects.get" in caught.value.fix


def test_a_refused_login_is_reported(bucket: Bucket) -> None:
    bucket.status = 401
    with pytest.raises(Unreachable, match="login was not accepted"):
        client().read("gs://my-bucket/a/file", limit=9)


def test_a_server_error_is_reported_after_two_tries(bucket: Bucket) -> None:
    bucket.status = 503
    with pytest.raises(Unreachable, match="HTTP 503"):
        client().names("gs://my-bucket/a")
    assert len([line for line in bucket.asked if "/o?" in line]) == 2


@pytest.mark.parametrize("failure", [Failure(), Failure(status=429), Failure(cut=True)])
def test_a_request_without_an_answer_is_retried(bucket: Bucket, failure: Failure) -> None:
    bucket.failures = [failure]
    assert client().read("gs://my-bucket/a/file", limit=4) == b"0123"


def test_a_refused_connection_is_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Bucket({})) as gone:
        pass
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gone.url)
    with pytest.raises(Unreachable, match="no connection"):
        client().read("gs://my-bucket/a", limit=9)


def test_a_silent_server_is_unreachable_after_the_deadline(bucket: Bucket) -> None:
    bucket.delay_s = 20
    storage = client()
    started = time.monotonic()
    with pytest.raises(Unreachable, match=r"no answer within 0\.1 s"):
        call_within(0.1, lambda: storage.read("gs://my-bucket/a/file", limit=9))
    assert time.monotonic() - started < bucket.delay_s


def test_the_google_library_is_not_imported_without_a_login() -> None:
    code = (
        "import sys\n"
        "from xsft.machine.storage import storage_for\n"
        "from xsft.base.errors import Unreachable\n"
        "try:\n"
        "    storage_for('gs://team-bucket/a', env={'HOME': '/nonexistent'})\n"
        "except Unreachable as e:\n"
        "    print(e.message)\n"
        "print([m for m in sys.modules if m.startswith(('google.cloud', 'google.auth.transport'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "no Google Cloud login was found\n[]\n"


def test_a_broken_login_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "key.json"
    key.write_text("not a key")
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    with pytest.raises(Unreachable, match="login cannot be used"):
        gcs_storage(os.environ)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything, so no permission can be denied to it")
def test_an_unreadable_folder_is_unreachable(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(Unreachable, match="Permission denied"):
        LocalStorage().names(str(tmp_path / "closed"))


def test_a_name_that_no_file_system_accepts_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        LocalStorage().read("a" * 5000, limit=9)
    with pytest.raises(Unreachable):
        LocalStorage().names("a\0b")


def test_a_pipe_is_read_as_missing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert LocalStorage().read(str(tmp_path / "pipe"), limit=9) is None


def test_storage_for_chooses_the_storage_by_the_scheme(bucket: Bucket, tmp_path: Path) -> None:
    assert isinstance(storage_for(str(tmp_path), env=os.environ), LocalStorage)
    assert isinstance(storage_for("gs://team-bucket/a", env=os.environ), GcsStorage)

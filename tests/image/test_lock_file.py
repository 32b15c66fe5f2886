"""The lock of an image on disk: written atomically, and read for a workload."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.image.materials import DIGEST
from tests.image.test_lock import LOCKED
from tests.replacing import replace
from xsft.base.errors import Refused, UsageError
from xsft.image.lock import LockedImage, update_lock
from xsft.image.lock_file import (
    current_tag,
    guard_file,
    image_facts,
    is_stale,
    keep_lock,
    lock_file,
    read_lock_file,
)
from xsft.image.options import BuildOptions
from xsft.machine.filelock import exclusive
from xsft.machine.files import write_atomic

OPTIONS = BuildOptions(maxtext="0.2.5", code=("extra",))
REPOSITORY = "us-docker.pkg.dev/p/r/mine"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def images(tmp_path: Path) -> Path:
    file = tmp_path / "project" / "images"
    (file / "mine").mkdir(parents=True)
    (file / "mine" / "Dockerfile").write_text("FROM scratch\nCOPY deps.json /usr/share/xsft/deps.json\n")
    (tmp_path / "project" / "extra").mkdir()
    (tmp_path / "project" / "extra" / "hooks.py").write_text("1")
    return file


def locked(images: Path, **changes: object) -> LockedImage:
    changed_locked = replace(LOCKED, image="mine", repository=REPOSITORY, base="", options=OPTIONS)
    return replace(changed_locked, code=current_tag(images, changed_locked), **changes)  # type: ignore[arg-type]


def test_keep_lock_writes_an_image_once_and_it_is_read_back(images: Path) -> None:
    locked_image = locked(images)
    assert keep_lock(images, locked_image) is True
    assert keep_lock(images, replace(locked_image, pushed_at="later")) is False
    assert read_lock_file(images, "mine").images == {REPOSITORY: locked_image}
    assert sorted(path.name for path in images.iterdir()) == ["mine", "mine.lock.json"]


@pytest.mark.parametrize("text", ["{", '{"schema": "xsft.image-lock/2", "images": {}}'])
def test_keep_lock_does_not_overwrite_an_unreadable_lock(images: Path, text: str) -> None:
    lock_file(images, "mine").write_text(text)
    with pytest.raises(Refused, match="is pushed"):
        keep_lock(images, locked(images))
    assert lock_file(images, "mine").read_text() == text


def test_a_broken_lock_is_reported(images: Path) -> None:
    lock_file(images, "mine").write_text("{")
    with pytest.raises(UsageError, match="cannot be read"):
        read_lock_file(images, "mine")
    facts = image_facts("mine", start=images, registry=None)
    assert "cannot be read" in facts.lock_problem
    assert facts.ref is None


def test_image_facts_are_those_of_the_places_registry(images: Path) -> None:
    keep_lock(images, locked(images))
    here = image_facts("mine", start=images.parent, registry="us-docker.pkg.dev/p/r")
    assert (here.ref, here.maxtext, here.stale) == (f"{REPOSITORY}@{DIGEST}", "0.2.5", False)
    facts_there = image_facts("mine", start=images.parent, registry="europe-docker.pkg.dev/p/r")
    assert (facts_there.ref, facts_there.repository, facts_there.pushed_to) == (
        None,
        "europe-docker.pkg.dev/p/r/mine",
        (REPOSITORY,),
    )
    assert image_facts("mine", start=images.parent, registry=None).ref == here.ref
    keep_lock(images, locked(images, repository="europe-docker.pkg.dev/p/r/mine"))
    assert image_facts("mine", start=images.parent, registry=None).ref is None


def test_image_facts_of_an_unknown_image_list_the_known_images(images: Path) -> None:
    facts = image_facts("min", start=images, registry=None)
    assert (facts.there, facts.others) == (False, ("mine",))


def test_is_stale_follows_the_content_of_the_sources(images: Path) -> None:
    locked_image = locked(images)
    hooks = images.parent / "extra" / "hooks.py"
    assert is_stale(images, locked_image) is False
    hooks.write_text("2")
    assert is_stale(images, locked_image) is True
    hooks.write_text("1")
    assert is_stale(images, locked_image) is False


@pytest.mark.parametrize("folder", ["/etc", "../outside", "extra/../../outside"])
def test_is_stale_reads_no_folder_outside_the_project(images: Path, folder: str) -> None:
    (images.parent.parent / "outside").mkdir()
    for options in (replace(OPTIONS, code=(folder,)), replace(OPTIONS, maxtext_source=folder)):
        assert is_stale(images, locked(images, options=options)) is None


def test_is_stale_is_none_if_the_sources_cannot_be_compared(images: Path) -> None:
    for options in (
        None,
        replace(OPTIONS, maxtext_source="git+https://example.com/m@1"),
        replace(OPTIONS, code=("gone",)),
    ):
        assert is_stale(images, locked(images, options=options)) is None
    assert is_stale(images, locked(images, image="elsewhere")) is None


def test_a_second_writer_of_the_lock_waits_and_keeps_the_first_entry(images: Path) -> None:
    elsewhere = locked(images, repository="europe-docker.pkg.dev/p/r/mine")
    second = threading.Thread(target=keep_lock, args=(images, elsewhere), daemon=True)
    with exclusive(guard_file(lock_file(images, "mine")), waiting=lambda: None):
        second.start()
        second.join(0.5)
        assert second.is_alive()
        write_atomic(lock_file(images, "mine"), update_lock(None, locked(images)) or "")
    second.join(300)
    assert set(read_lock_file(images, "mine").images) == {REPOSITORY, elsewhere.repository}

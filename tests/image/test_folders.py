"""Folders become the content of an image; equal files give equal bytes, and a file that changes is refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.steps import context
from tests.replacing import replace
from xsft.base.errors import EnvironmentMissing, Refused, SpecError, UsageError
from xsft.image.context import ContextFile
from xsft.image.folders import (
    MTIME_S,
    SCANNED,
    _read_tree,
    find_images,
    image_names,
    images_folder,
    layer_archive,
    read_code,
    read_context,
    read_image_files,
    refuse_content,
    write_tar,
)
from xsft.image.options import BuildOptions
from xsft.workers.delivery import programs_archive, programs_digest

NAMES = st.sampled_from(["a", "b.py", "ü", "with space"])
PRIVATE_KEY = "-----BEGIN PRIVATE" + " KEY-----\n" + "A" * 64


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tree(
        tmp_path / "images" / "mine",
        Dockerfile="ARG BASE_IMAGE=base\nFROM ${BASE_IMAGE}\nCOPY deps.json /usr/share/xsft/deps.json\n",
        **{
            ".dockerignore": "*\n!requirements.txt\n",
            "requirements.txt": "jax==0.11.0 \\\n  --hash=x\n",
            "README.md": "1",
        },
    )


def tree(root: Path, *names: str, **files: str) -> Path:
    for name, text in {**dict.fromkeys(names, "1"), **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def paths(files: tuple[ContextFile, ...]) -> list[str]:
    return sorted(file.path for file in files)


def read(root: Path) -> tuple[ContextFile, ...]:
    return _read_tree(root, prefix="", ignored=lambda _: False)


def code(*folders: Path, **trees: Path) -> tuple[ContextFile, ...]:
    return read_code(folders, trees)


def test_the_context_is_what_the_ignore_file_allows(folder: Path) -> None:
    files = read_image_files(folder.parent, "mine", BuildOptions(), {})
    assert paths(files.context) == ["Dockerfile", "requirements.txt"]
    assert (files.arguments, files.packages) == ({"BASE_IMAGE": "base"}, {"jax": "0.11.0"})
    tree(folder, **{"Dockerfile.dockerignore": "requirements.txt\n"})
    assert paths(read_context(folder)) == ["Dockerfile", "README.md"]


def test_readme_and_lock_do_not_change_the_context(folder: Path) -> None:
    before = read_context(folder)
    (folder / "README.md").write_text("another word")
    (folder.parent / "mine.lock.json").write_text("{}")
    assert read_context(folder) == before


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"Dockerfile": "FROM scratch\n"}, "writes no /usr/share/xsft/deps.json"),
        ({"code.Dockerfile": "FROM x\n"}, "code.Dockerfile is not used any more"),
    ],
)
def test_a_folder_that_this_version_cannot_use_is_refused_by_name(
    folder: Path, files: dict[str, str], words: str
) -> None:
    tree(folder, **files)
    with pytest.raises(UsageError, match=words) as refused:
        read_context(folder)
    assert refused.value.problem_id == "image-dockerfile"


def test_code_is_the_users_folders_the_packages_of_forks_and_xsfts_programs(tmp_path: Path) -> None:
    extra = tree(tmp_path / "extra", "hooks.py", "pkg/mod.py", "__pycache__/x", "drop.py", "pkg/a.pyc", ".git/x")
    tree(extra, **{".dockerignore": "drop.py\n"})
    fork = tree(tmp_path / "fork", "src/maxtext/__init__.py", "src/maxtext/train.py", "tests/big.py")
    flat = tree(tmp_path / "flat", "tunix/__init__.py")
    files = code(extra, maxtext=fork, tunix=flat)
    assert paths(files) == [
        "code/hooks.py",
        "code/pkg/mod.py",
        "maxtext/__init__.py",
        "maxtext/train.py",
        "tunix/__init__.py",
        "xsft/evaluate.zip",
    ]
    assert files[-1].sha256 == programs_digest()
    assert files[-1].content == programs_archive()


def test_sources_that_do_not_fit_are_reported(tmp_path: Path) -> None:
    first, other = tree(tmp_path / "one", "hooks.py"), tree(tmp_path / "other", "hooks.py")
    with pytest.raises(UsageError, match=r"code/hooks\.py is given twice"):
        code(first, other)
    with pytest.raises(UsageError, match="has no package maxtext"):
        code(maxtext=tree(tmp_path / "legacy", "MaxText/__init__.py"))
    with pytest.raises(UsageError, match="is not a folder"):
        code(tmp_path / "nowhere")


def test_links_are_kept_as_links_and_dangling_ones_are_marked(tmp_path: Path) -> None:
    root = tree(tmp_path / "root", "a", "below/b")
    (tmp_path / "outside").write_text("3")
    targets = {"in": "a", "up": "below/../a", "abs": str(root / "a"), "out": "../outside", "gone": "nowhere"}
    for name, target in {**targets, "dir": "below", "below/loop": "loop"}.items():
        (root / name).symlink_to(target)
    links = {file.path: file for file in read(root) if file.kind == "link"}
    assert {name: link.dangling for name, link in links.items()} == {
        **dict.fromkeys(("in", "up", "dir"), False),
        **dict.fromkeys(("abs", "out", "gone", "below/loop"), True),
    }
    assert links["abs"].target == str(root / "a")


def test_pipes_are_left_out_and_the_executable_bit_is_kept(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    tree(tmp_path, run="#!/bin/sh", data="x")
    (tmp_path / "run").chmod(0o700)
    (tmp_path / "data").chmod(0o600)
    assert [(file.path, file.executable) for file in read(tmp_path)] == [("data", False), ("run", True)]


def test_an_unreadable_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="nowhere cannot be read"):
        read(tmp_path / "nowhere")


@settings(max_examples=20)
@given(st.dictionaries(NAMES, st.binary(max_size=3), max_size=3), st.integers(0, 2**31))
def test_times_and_order_of_writing_do_not_matter(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], time: int
) -> None:
    first, other = (tmp_path_factory.mktemp("tree") for _ in range(2))
    for name, content in files.items():
        (first / name).write_bytes(content)
    for name, content in reversed(files.items()):
        (other / name).write_bytes(content)
        os.utime(other / name, (time, time))
    listings = [[(file.path, file.sha256, file.size) for file in read(root)] for root in (first, other)]
    assert listings[0] == listings[1]


def test_secrets_are_found_by_content_and_large_files_are_data(tmp_path: Path) -> None:
    tree(tmp_path, key=PRIVATE_KEY, clean="print(1)", large=PRIVATE_KEY + " " * SCANNED)
    files = (*read(tmp_path), ContextFile(path=".wh.old", kind="file"))
    with pytest.raises(SpecError, match="a private key") as refused:
        refuse_content(files, accept=())
    assert [problem.message.split()[0] for problem in refused.value.problems] == ["key"]
    assert refuse_content(files, accept=(), searched="clean") == ()
    (tmp_path / "clean").unlink()
    with pytest.raises(EnvironmentMissing, match="clean cannot be read"):
        refuse_content(files, accept=())


def test_images_folder_is_found_from_a_folder_below(folder: Path, tmp_path: Path) -> None:
    below = tmp_path / "workloads" / "deep"
    below.mkdir(parents=True)
    assert images_folder(below, "mine") == find_images(below, "mine") == tmp_path / "images"
    assert images_folder(below, "other") is None
    assert image_names(below) == ("mine",)
    (tmp_path / "images" / "pulled.lock.json").write_text("{}")
    assert images_folder(below, "pulled") == tmp_path / "images"


@pytest.mark.parametrize(
    ("name", "id", "words"),
    [
        ("other", "image-unknown", "Known: mine"),
        ("images/mine/", "image-unknown", "Known: mine"),
        ("empty", "image-unknown", "has no Dockerfile"),
    ],
)
def test_find_images_says_what_is_wrong_with_a_name(folder: Path, name: str, id: str, words: str) -> None:
    (folder.parent / "empty").mkdir()
    with pytest.raises(UsageError) as refused:
        find_images(folder.parent.parent, name)
    assert refused.value.problem_id == id
    assert words in f"{refused.value.message} {refused.value.fix}"


def tar(files: tuple[ContextFile, ...]) -> bytes:
    write_tar(files, into := io.BytesIO())
    return into.getvalue()


def test_the_archive_ignores_owner_time_mode_and_order_of_the_checkout(tmp_path: Path) -> None:
    wanted = {"z/y.py": "print()", "a": "1", "empty": ""}
    first = context(tmp_path / "one", wanted)
    other = context(tmp_path / "other", dict(reversed(wanted.items())))
    os.utime(tmp_path / "other" / "a", (1, 1))
    (tmp_path / "other" / "a").chmod(0o600)
    assert tar(first) == tar(other)


def test_the_archive_contains_folders_files_and_links_with_fixed_metadata(tmp_path: Path) -> None:
    (script,) = context(tmp_path, {"bin/run": "x"})
    link = ContextFile(path="here", kind="link", target="bin/run")
    content = tar((link, replace(script, executable=True), ContextFile(path="bin/.wh.old", kind="file")))
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        rows = [(m.name, m.mode, m.uid, m.mtime, m.linkname) for m in archive.getmembers()]
        assert archive.extractfile("bin/run").read() == b"x"  # type: ignore[union-attr]
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

"""Any folder becomes a build context."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xsft.base.errors import EnvironmentMissing, UsageError
from xsft.effects.images.context import (
    code_part,
    context_file,
    deps_part,
    hash_large_files,
    image_names,
    images_folder,
    read_tree,
)
from xsft.image.context import LIMIT, context_problems
from xsft.image.model import ContextFile
from xsft.image.recipe import EVALUATE_FILE
from xsft.workers.evaluation_archive import program_archive, program_digest

NAMES = st.sampled_from(["a", "b.py", "ü", "with space"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "images" / "mine"
    made.mkdir(parents=True)
    (made / "Dockerfile").write_text("ARG BASE_IMAGE=base\nFROM ${BASE_IMAGE}\n")
    (made / "code.Dockerfile").write_text("ARG DEPS_IMAGE\nFROM ${DEPS_IMAGE}\n")
    (made / "Dockerfile.dockerignore").write_text("*\n!requirements.txt\n")
    (made / "code.Dockerfile.dockerignore").write_text("*\n!place.py\n")
    for name in ("requirements.txt", "place.py", "README.md"):
        (made / name).write_text(name)
    return made


def paths(files: tuple[ContextFile, ...], kind: str = "file") -> list[str]:
    return sorted(f.path for f in files if f.kind == kind)


def tree(root: Path, *names: str, **files: str) -> Path:
    for name, text in {**dict.fromkeys(names, "1"), **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_each_dockerfile_gets_the_files_that_its_ignore_file_allows(folder: Path) -> None:
    deps, code = deps_part(folder), code_part(folder)
    assert paths(deps.files) == ["Dockerfile", "requirements.txt"]
    assert deps.args == {"BASE_IMAGE": "base"}
    assert paths(code.files) == ["code.Dockerfile", "place.py"]
    assert paths(code.files, "folder") == ["code", "maxtext", "tunix"]


def test_the_folders_dockerignore_applies_to_a_dockerfile_without_its_own(folder: Path) -> None:
    (folder / "Dockerfile.dockerignore").unlink()
    (folder / ".dockerignore").write_text("README.md\n*.Dockerfile\n")
    assert paths(deps_part(folder).files) == ["Dockerfile", "place.py", "requirements.txt"]


def test_readme_and_lock_do_not_change_the_part(folder: Path) -> None:
    before = deps_part(folder), code_part(folder)
    (folder / "README.md").write_text("another word")
    (folder.parent / "mine.lock.json").write_text("{}")
    assert (deps_part(folder), code_part(folder)) == before


def test_code_and_package_folders_are_added_to_the_code_part(folder: Path, tmp_path: Path) -> None:
    extra = tree(tmp_path / "extra", "hooks.py", "pkg/mod.py", "__pycache__/x")
    fork = tree(tmp_path / "fork", "src/maxtext/__init__.py", "src/maxtext/train.py", "tests/big.py")
    flat = tree(tmp_path / "flat", "tunix/__init__.py")
    found = code_part(folder, code=(extra,), maxtext=fork, tunix=flat)
    assert [path for path in paths(found.files) if "/" in path] == [
        "code/hooks.py",
        "code/pkg/mod.py",
        "maxtext/maxtext/__init__.py",
        "maxtext/maxtext/train.py",
        "tunix/tunix/__init__.py",
    ]


def test_a_dockerfile_that_takes_the_evaluation_program_gets_it(folder: Path) -> None:
    assert EVALUATE_FILE not in paths(code_part(folder).files)
    (folder / "code.Dockerfile").write_text('ARG DEPS_IMAGE\nFROM ${DEPS_IMAGE}\nARG EVALUATE_SHA256=""\n')
    (program,) = (f for f in code_part(folder).files if f.path == EVALUATE_FILE)
    assert program.sha256 == program_digest()
    assert Path(program.source).read_bytes() == program_archive()


def test_context_file_names_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in its place")
    with pytest.raises(EnvironmentMissing, match=f"cannot write {tmp_path}/file/cache/"):
        context_file(b"content", path="a.zip", cache=tmp_path / "file" / "cache")


def test_two_files_with_the_same_path_are_reported(folder: Path, tmp_path: Path) -> None:
    one, other = tree(tmp_path / "one", "hooks.py"), tree(tmp_path / "other", "hooks.py")
    with pytest.raises(UsageError, match=r"code/hooks\.py is given twice"):
        code_part(folder, code=(one, other))


def test_a_missing_or_wrong_source_folder_is_reported(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no package maxtext"):
        code_part(folder, maxtext=tree(tmp_path / "legacy", "MaxText/__init__.py"))
    with pytest.raises(UsageError, match="is not a folder"):
        code_part(folder, code=(tmp_path / "nowhere",))
    (folder / "code.Dockerfile").unlink()
    with pytest.raises(UsageError, match=r"code\.Dockerfile cannot be read"):
        code_part(folder)


def test_files_in_a_folders_dockerignore_stay_out(folder: Path, tmp_path: Path) -> None:
    extra = tree(tmp_path / "extra", "keep.py", "drop.py")
    (extra / ".dockerignore").write_text("drop.py\n")
    assert [p for p in paths(code_part(folder, code=(extra,)).files) if p.startswith("code/")] == ["code/keep.py"]


def test_links_are_kept_as_links_and_dangling_ones_are_marked(tmp_path: Path) -> None:
    root = tree(tmp_path / "root", "a", "below/b")
    (tmp_path / "outside").write_text("3")
    targets = {
        "in": "a",
        "up": "below/../a",
        "abs": str(root / "a"),
        "out": "../outside",
        "gone": "nowhere",
        "dir": "below",
    }
    for name, target in targets.items():
        (root / name).symlink_to(target)
    (root / "below" / "loop").symlink_to("loop")
    found = {f.path: f for f in read_tree(root) if f.kind == "link"}
    assert {name: f.dangling for name, f in found.items()} == {
        **dict.fromkeys(("in", "up", "dir"), False),
        **dict.fromkeys(("abs", "out", "gone", "below/loop"), True),
    }
    assert found["abs"].target == str(root / "a")


def test_read_tree_skips_pipes_and_keeps_the_executable_bit(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    tree(tmp_path, run="#!/bin/sh", data="x")
    (tmp_path / "run").chmod(0o700)
    (tmp_path / "data").chmod(0o600)
    assert [(f.path, f.executable) for f in read_tree(tmp_path)] == [("data", False), ("run", True)]


def test_a_file_over_the_size_limit_is_reported_without_being_read(folder: Path, tmp_path: Path) -> None:
    big = tree(tmp_path / "mine", "small") / "big"
    with big.open("wb") as sparse:
        sparse.truncate(LIMIT + 1)
    part = code_part(folder, code=(big.parent,))
    assert [(f.path, f.size, f.sha256) for f in part.files if f.path.endswith("big")] == [("code/big", LIMIT + 1, "")]
    assert [p.id for p in context_problems(part.files)] == ["image-context-large"]
    os.truncate(big, 1)  # reading 500 MiB takes 2 CPU-s
    assert all(f.sha256 for f in hash_large_files(part).files if f.kind == "file")


def test_read_tree_reports_an_unreadable_folder(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="nowhere cannot be read"):
        list(read_tree(tmp_path / "nowhere"))


@settings(max_examples=20)
@given(st.dictionaries(NAMES, st.binary(max_size=3), max_size=3), st.integers(0, 2**31))
def test_read_tree_ignores_times_and_order_of_writing(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], time: int
) -> None:
    one, other = (tmp_path_factory.mktemp("tree") for _ in range(2))
    for name, content in files.items():
        (one / name).write_bytes(content)
    for name, content in reversed(files.items()):
        (other / name).write_bytes(content)
        os.utime(other / name, (time, time))
    seen = [[(f.path, f.sha256, f.executable, f.size) for f in read_tree(root)] for root in (one, other)]
    assert seen[0] == seen[1]


def test_images_folder_is_found_from_a_folder_below(folder: Path, tmp_path: Path) -> None:
    below = tmp_path / "workloads" / "deep"
    below.mkdir(parents=True)
    assert images_folder(below, "mine") == tmp_path / "images"
    assert images_folder(below, "other") is None
    assert image_names(below) == ("mine",)
    (tmp_path / "images" / "pulled.lock.json").write_text("{}")
    assert images_folder(below, "pulled") == tmp_path / "images"

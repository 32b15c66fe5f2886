"""Sources: a folder, or a commit that git fetches."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gitrepo import git
from xsft.base.errors import Unreachable
from xsft.image.sources import SourceTree, source_of
from xsft.machine.process import own_environment


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    made = tmp_path / "fork"
    made.mkdir()
    (made / "a.py").write_text("1")
    for argv in (("init", "-q", "-b", "main"), ("add", "a.py"), ("commit", "-q", "-m", "first"), ("tag", "v1")):
        git(made, *argv)
    return made


def found(text: str, tmp_path: Path, said: list[str] | None = None) -> SourceTree:
    progress = (said if said is not None else []).append
    return source_of(text, project=tmp_path, env=own_environment(), cache=tmp_path / "cache", progress=progress)


def test_a_folder_is_described_by_its_commit_and_changes(fork: Path, tmp_path: Path) -> None:
    head = git(fork, "rev-parse", "HEAD")
    assert found("fork", tmp_path) == SourceTree(folder=fork, label=f"tree {head}")
    (fork / "a.py").write_text("2")
    assert found(str(fork), tmp_path) == SourceTree(folder=fork, label=f"tree {head}-dirty")


@pytest.mark.parametrize("ref", ["main", "v1", "COMMIT"])
def test_a_git_source_is_fetched_and_a_full_commit_only_once(fork: Path, tmp_path: Path, ref: str) -> None:
    head = git(fork, "rev-parse", "HEAD")
    text = f"git+file://{fork}@{head if ref == 'COMMIT' else ref}"
    first = found(text, tmp_path)
    assert first.label == f"git {head}"
    assert (first.folder / "a.py").read_text() == "1"
    said: list[str] = []
    assert found(text, tmp_path, said) == first
    assert bool(said) == (ref != "COMMIT")


def test_a_branch_that_moved_is_fetched_again(fork: Path, tmp_path: Path) -> None:
    text = f"git+file://{fork}@main"
    before = found(text, tmp_path)
    (fork / "a.py").write_text("2")
    git(fork, "commit", "-q", "-a", "-m", "second")
    after = found(text, tmp_path)
    assert ((before.folder / "a.py").read_text(), (after.folder / "a.py").read_text()) == ("1", "2")


def test_a_source_that_cannot_be_fetched_is_reported(fork: Path, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"nowhere of file://.* could not be fetched"):
        found(f"git+file://{fork}@nowhere", tmp_path)
    assert found(f"git+file://{fork}@main", tmp_path)
    with pytest.raises(Unreachable, match="could not be fetched"):
        found(f"git+file://{fork}@--upload-pack=x", tmp_path)

"""The commit and changes of a folder, by git."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gitrepo import git, made_in
from xsft.machine.paths import Checkout, checkout, git_commit


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return made_in(tmp_path)


def test_git_commit_and_checkout_are_none_without_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_commit(tmp_path) is None
    assert checkout(tmp_path) is None
    git(tmp_path, "init", "-q")
    assert (git_commit(tmp_path), checkout(tmp_path)) == (None, None)
    assert git_commit(tmp_path / "nowhere") is None


def test_checkout_is_dirty_only_if_a_tracked_file_changed(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert checkout(repository) == Checkout(commit=head, dirty=False)
    assert git_commit(repository) == head
    (repository / "untracked").write_text("1")
    assert checkout(repository) == Checkout(commit=head, dirty=False)
    git(repository, "add", "untracked")
    assert checkout(repository) == Checkout(commit=head, dirty=True)

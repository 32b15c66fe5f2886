"""The git checkout that contains a folder."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from xsft.base.errors import XsftError
from xsft.machine.process import own_environment, run

GIT_TIMEOUT_S = 10.0
_OID = "# branch.oid "


class Checkout(Struct, frozen=True, kw_only=True):
    commit: str
    """40 hex digits."""
    dirty: bool
    """A tracked file differs from the commit."""


def checkout(folder: Path) -> Checkout | None:
    """Return the checkout; None without a checkout, a first commit or git. Runs one process: `git status` shows
    both.
    """
    status = _git(folder, "status", "--porcelain=v2", "--branch", "--untracked-files=no")
    lines = (status or "").splitlines()
    commit = next((line.removeprefix(_OID) for line in lines if line.startswith(_OID)), "(initial)")
    if commit == "(initial)":
        return None
    return Checkout(commit=commit, dirty=any(not line.startswith("#") for line in lines))


def git_commit(folder: Path) -> str | None:
    """Return the commit checked out in `folder`; None if `checkout` returns None."""
    head = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    return head.strip() or None if head is not None else None


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = run(("git", "-C", str(folder), *arguments), env=own_environment(), timeout_s=GIT_TIMEOUT_S)
    except XsftError:
        return None
    return done.stdout if done.ok else None

"""The source of MaxText and Tunix: a folder of the user's, or a commit, checked out in the cache.

git uses its own credential helpers; xsft handles no login here.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from xsft.base.errors import EnvironmentMissing, Unreachable
from xsft.base.secrets import redact
from xsft.machine.checkout import checkout, git_commit
from xsft.machine.filelock import exclusive
from xsft.machine.paths import private_folder
from xsft.machine.process import ProcessResult, run

FETCH_TIMEOUT_S = 600.0
_COMMIT = re.compile(r"[0-9a-f]{40}")


class SourceTree(Struct, frozen=True, kw_only=True):
    """A source tree on this machine."""

    folder: Path
    label: str
    """`git <commit>` or `tree <commit>[-dirty]`: for the document; never a path or an address."""


def source_of(
    text: str, *, project: Path, env: Mapping[str, str], cache: Path, progress: Callable[[str], None]
) -> SourceTree:
    """Return the tree of a folder or a commit. Raises Unreachable if the commit cannot be fetched, EnvironmentMissing
    without git.
    """
    if text.startswith("git+"):
        url, _, ref = text.removeprefix("git+").rpartition("@")
        return _checked_out(url, ref, env=env, cache=cache / "image-sources", progress=progress)
    folder = project / text
    state = checkout(folder) if folder.is_dir() else None
    label = "tree"
    if state:
        label = f"tree {state.commit}-dirty" if state.dirty else f"tree {state.commit}"
    return SourceTree(folder=folder, label=label)


def _checked_out(
    url: str, ref: str, *, env: Mapping[str, str], cache: Path, progress: Callable[[str], None]
) -> SourceTree:
    """Return the tree of a commit. A full commit that is in the cache is used without a request; a tag or branch is
    looked up each time.
    """
    name = hashlib.sha256(url.encode()).hexdigest()[:16]
    with exclusive(cache / f"{name}.lock", waiting=lambda: progress("waiting for another fetch of the same source")):
        folder = cache / name / ref
        if _COMMIT.fullmatch(ref) and folder.is_dir():
            return SourceTree(folder=folder, label=f"git {ref}")
        progress(f"fetching {ref} of {url}")
        fresh = cache / name / "fetching"
        shutil.rmtree(fresh, ignore_errors=True)
        private_folder(fresh)
        commit = _fetch(url, ref, into=fresh, env=env)
        folder = cache / name / commit
        if folder.is_dir():
            shutil.rmtree(fresh)
        else:
            fresh.rename(folder)
        return SourceTree(folder=folder, label=f"git {commit}")


def _fetch(url: str, ref: str, *, into: Path, env: Mapping[str, str]) -> str:
    """Fetch with a depth of one commit. Returns the commit."""
    without_prompt = {**env, "GIT_TERMINAL_PROMPT": "0"}
    for arguments in (
        ("init", "--quiet"),
        ("fetch", "--quiet", "--depth", "1", "--end-of-options", url, ref),
        ("-c", "advice.detachedHead=false", "checkout", "--quiet", "FETCH_HEAD"),
    ):
        done = run(("git", "-C", str(into), *arguments), env=without_prompt, timeout_s=FETCH_TIMEOUT_S)
        if not done.ok:
            raise _not_fetched(url, ref, done)
    commit = git_commit(into)
    if commit is None:
        raise EnvironmentMissing(f"git fetched {ref}, but checked out no files.", fix="Update git.", id="image-source")
    return commit


def _not_fetched(url: str, ref: str, done: ProcessResult) -> Unreachable:
    words = redact(" ".join(done.stderr.split()))[:300]
    return Unreachable(
        f"{ref} of {url} could not be fetched: {words}",
        fix="Check that the commit is pushed and that `git ls-remote` works with that URL, or use a folder instead.",
        id="image-source",
    )

"""A git repository for a test."""

from __future__ import annotations

import subprocess
from pathlib import Path


def made_in(folder: Path) -> Path:
    """With one commit, of nothing."""
    for argv in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "first")):
        git(folder, *argv)
    return folder


def git(folder: Path, *argv: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(("git", "-C", str(folder), *identity, *argv), capture_output=True, text=True, check=True)
    return done.stdout.strip()

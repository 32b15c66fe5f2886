"""Compute tags from content: `deps-<hash>` and `code-<hash>`. Pure.

Hashed: paths, contents, executable bits, link targets, build arguments, platform, and the digest of the base image. Not
hashed: who built it, when and from which commit, owners and times of files (the context is sent without them). Two
commits with the same files give the same image, built once; its labels name the first commit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from xsft.image.model import ContextFile

DIGITS = 20
"""Number of hex digits of a tag's hash: 80 bits."""


def deps_tag(
    files: Iterable[ContextFile],
    *,
    dockerfile: str,
    args: Mapping[str, str],
    labels: Mapping[str, str],
    platform: str,
    base: str,
) -> str:
    """Return the tag of the dependencies' image.

    `base` identifies the base image: its digest, or `Base.known`. All labels are hashed, so that one tag never means
    two sets of dependencies.
    """
    told = {"args": dict(args), "labels": dict(labels), "platform": platform, "base": base}
    return f"deps-{_digest({'dockerfile': dockerfile, 'files': _rows(files), **told})}"


def code_tag(
    files: Iterable[ContextFile], *, dockerfile: str, args: Mapping[str, str], platform: str, deps: str
) -> str:
    """Return the tag of the code's image.

    `deps`: the tag of the dependencies it builds on. `args`: without those that only become labels.
    """
    content = {"dockerfile": dockerfile, "files": _rows(files), "args": dict(args), "platform": platform, "deps": deps}
    return f"code-{_digest(content)}"


def _rows(files: Iterable[ContextFile]) -> list[list[str | bool | None]]:
    return [[f.path, f.kind, f.executable, f.sha256, f.target] for f in sorted(files, key=lambda f: f.path)]


def _digest(content: Mapping[str, object]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]

"""Names that are made of content: `deps-<hash>` and `code-<hash>`. Pure.

What counts: paths, contents, executable bits, link targets, build arguments, platform, and the base image by the
digest it has. What does not: who built it, when and from which commit. Two commits with the same files are the same
image, and are built once; the commit in its labels is then the first one's. Owners and times of files do not count
either: the context is sent without them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from xsft.image.model import ContextFile

DIGITS = 20
"""Hex digits of a tag's hash: 80 bits."""


def deps_tag(
    files: Iterable[ContextFile],
    *,
    dockerfile: str,
    args: Mapping[str, str],
    labels: Mapping[str, str],
    platform: str,
    base: str,
) -> str:
    """`base` says which bytes the base image is: its digest, or what else is known of it. All labels count, so that one
    tag of dependencies never means two sets of them.
    """
    told = {"args": dict(args), "labels": dict(labels), "platform": platform, "base": base}
    return f"deps-{_digest({'dockerfile': dockerfile, 'files': _rows(files), **told})}"


def code_tag(
    files: Iterable[ContextFile], *, dockerfile: str, args: Mapping[str, str], platform: str, deps: str
) -> str:
    """`deps` is the tag of the dependencies below; `args` without those that only become labels."""
    content = {"dockerfile": dockerfile, "files": _rows(files), "args": dict(args), "platform": platform, "deps": deps}
    return f"code-{_digest(content)}"


def _rows(files: Iterable[ContextFile]) -> list[list[str | bool | None]]:
    return [[f.path, f.kind, f.executable, f.sha256, f.target] for f in sorted(files, key=lambda f: f.path)]


def _digest(content: Mapping[str, object]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]

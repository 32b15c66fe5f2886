"""Check a build context before it is sent: broken links, size and secrets; and read a Dockerfile's arguments. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from xsft.base.amounts import size_text
from xsft.base.problems import Problem, error, warning
from xsft.base.secrets import looks_token
from xsft.image.model import ContextFile

LIMIT = 500 * 2**20
"""Largest context accepted, in bytes; MaxText's own tree is 30 MB."""
LARGEST = 5
ACCEPTABLE = ("image-context-large",)
"""Problem ids that `--accept` takes."""

ALWAYS_IGNORED = """\
**/.git
**/.hg
**/.svn
**/.venv
**/__pycache__
**/*.pyc
**/.mypy_cache
**/.ruff_cache
**/.pytest_cache
**/.ipynb_checkpoints
**/.DS_Store
"""
"""Files that enter no image and no image's identity: version control, environments and caches. Written as a
.dockerignore; the user's own .dockerignore follows and may re-include them.
"""

_SECRET_NAMES = re.compile(
    r"\.env(\.(?!example$|sample$|template$)[^/]+)?|\.netrc|\.git-credentials|\.pypirc|\.dockercfg|\.boto"
    r"|id_(rsa|dsa|ecdsa|ed25519)|(hf[-_]?)?\.?token|application_default_credentials\.json|kubeconfig",
    re.IGNORECASE,
)
_ARGUMENT = re.compile(r"^\s*ARG\s+(.*)$", re.IGNORECASE)
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:=(\"[^\"]*\"|'[^']*'|\S*))?")
_END = rb"(?:\s|\\[rn])"
_HEADERS = rb"(?:[A-Za-z-]+: [^\n\\]*(?:\n|\\[rn])" + _END + rb"*)*"
_PEM = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----" + _END + rb"+" + _HEADERS + rb"[A-Za-z0-9+/]{40}")
"""A PEM header and the first line of the key: code that only mentions the header does not match. source: RFC 7468, RFC
1421 (headers); `\n` is a line's end in JSON.
"""


def context_problems(files: Sequence[ContextFile], *, limit: int = LIMIT) -> tuple[Problem, ...]:
    """Return the problems `image-context-link`, `image-context-secret` and `image-context-large`."""
    return (*_links(files), *_find_secret_files(files), *_large(files, limit=limit))


def accept_size(problems: Iterable[Problem], ids: Iterable[str]) -> tuple[Problem, ...]:
    """Turn accepted problems into warnings; only the size may be accepted, not a broken link or a secret."""
    taken = {*ids}
    return tuple(
        warning(p.id, p.where, f"{p.message} (accepted)", "") if p.id in taken and p.can_be_accepted else p
        for p in problems
    )


def size_of(files: Iterable[ContextFile]) -> int:
    """Return the total size in bytes."""
    return sum(f.size for f in files)


def largest(files: Iterable[ContextFile], *, count: int = LARGEST) -> tuple[ContextFile, ...]:
    return tuple(sorted((f for f in files if f.size), key=lambda f: (-f.size, f.path))[:count])


def _links(files: Iterable[ContextFile]) -> Iterator[Problem]:
    for f in files:
        if not f.dangling:
            continue
        how = "is absolute" if str(f.target).startswith("/") else "points outside the context"
        message = f"{f.path} is a link to {f.target}, which {how}: it would be broken in the image."
        fix = "Replace it with the file, or exclude it in .dockerignore."
        yield error("image-context-link", "", message, fix)


def _find_secret_files(files: Iterable[ContextFile]) -> Iterator[Problem]:
    for f in files:
        named = _SECRET_NAMES.fullmatch(f.path.rpartition("/")[2])
        what = f.secret or ("what such a file usually holds" if named and f.kind == "file" else "")
        if what:
            message = f"{f.path} would be in the image, readable by everyone who can pull it: {what}."
            fix = "Add it to .dockerignore; a run gets its secrets from Kubernetes (secrets: in the workload)."
            yield error("image-context-secret", "", message, fix)


def _large(files: Sequence[ContextFile], *, limit: int) -> Iterator[Problem]:
    size = size_of(files)
    if size <= limit:
        return
    named = ", ".join(f"{f.path} ({size_text(f.size)})" for f in largest(files))
    message = f"The build context is {size_text(size)}; the limit is {size_text(limit)}. Largest files: {named}."
    fix = "Add what the image does not need to .dockerignore, or pass --accept image-context-large."
    yield error("image-context-large", "", message, fix, kind="disputable")


def arguments(text: str) -> dict[str, str | None]:
    """Return each build argument and its default (None without one). The first default counts: the one before FROM."""
    found: dict[str, str | None] = {}
    for line in text.splitlines():
        declared = _ARGUMENT.match(line)
        for name, default in _NAME.findall(declared[1].partition(" #")[0]) if declared else ():
            found[name] = found.get(name) or default.strip("\"'") or None
    return found


def secret_in(content: bytes) -> str:
    """Return what kind of secret the content looks like, never its value; empty for none."""
    if _PEM.search(content):
        return "a service account key" if _is_service_account(content) else "a private key"
    return "what looks like a token" if looks_token(content.decode("latin-1")) else ""


def _is_service_account(content: bytes) -> bool:
    """Return whether this is a service account key. source: Google Cloud documentation, "Create and delete service
    account keys".
    """
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("type") == "service_account"

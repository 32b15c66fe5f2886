"""Is a build context fit to be sent? Links that lead nowhere, gigabytes and secrets are told before. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from xsft.image.model import ContextFile
from xsft.problems import Problem, error, warning

LIMIT = 500 * 2**20
"""Bytes; MaxText's own tree is 30 MB."""
LARGEST = 5
ACCEPTABLE = ("image-context-large",)
"""Ids that `--accept` takes."""

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
"""What is in no image, and in no identity: histories, environments and caches. In the form of a .dockerignore, whose
own rules come after and may take back.
"""

_SECRET_NAMES = re.compile(
    r"\.env(\.(?!example$|sample$|template$)[^/]+)?|\.netrc|\.git-credentials|\.pypirc|\.dockercfg|\.boto"
    r"|id_(rsa|dsa|ecdsa|ed25519)|(hf[-_]?)?\.?token|application_default_credentials\.json|kubeconfig",
    re.IGNORECASE,
)


def context_problems(files: Sequence[ContextFile], *, limit: int = LIMIT) -> tuple[Problem, ...]:
    """`image-context-link`, `image-context-secret`, `image-context-large`."""
    return (*_links(files), *_secrets(files), *_large(files, limit=limit))


def accepting(problems: Iterable[Problem], ids: Iterable[str]) -> tuple[Problem, ...]:
    """The size may be accepted by its id; a link that cannot work and a secret that would leave may not."""
    taken = set(ids)
    return tuple(_accepted(p) if p.id in taken & {*ACCEPTABLE} else p for p in problems)


def size_of(files: Iterable[ContextFile]) -> int:
    """Bytes."""
    return sum(f.size for f in files)


def largest(files: Iterable[ContextFile], *, count: int = LARGEST) -> tuple[ContextFile, ...]:
    return tuple(sorted((f for f in files if f.size), key=lambda f: (-f.size, f.path))[:count])


def in_words(size: int) -> str:
    """`1.2 GB`."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"


def _links(files: Iterable[ContextFile]) -> Iterator[Problem]:
    for f in files:
        if not f.dangling:
            continue
        how = "is absolute" if str(f.target).startswith("/") else "leads nowhere in the context"
        message = f"{f.path} is a link to {f.target}, which {how}: in the image it would be broken."
        fix = "Replace it by the file it means, or leave it out by a line in .dockerignore."
        yield error("image-context-link", "", message, fix)


def _secrets(files: Iterable[ContextFile]) -> Iterator[Problem]:
    for f in files:
        named = _SECRET_NAMES.fullmatch(f.path.rpartition("/")[2])
        what = f.secret or ("what such a file usually holds" if named and f.kind == "file" else "")
        if what:
            message = f"{f.path} would be in the image, readable by everyone who may pull it: {what}."
            fix = "Add it to .dockerignore; a run gets its secrets from Kubernetes (secrets: in the workload)."
            yield error("image-context-secret", "", message, fix)


def _large(files: Sequence[ContextFile], *, limit: int) -> Iterator[Problem]:
    size = size_of(files)
    if size <= limit:
        return
    named = ", ".join(f"{f.path} ({in_words(f.size)})" for f in largest(files))
    message = f"The build context has {in_words(size)}; {in_words(limit)} is the limit. Its largest files: {named}."
    fix = "Add what the image does not need to .dockerignore; or give --accept image-context-large."
    yield error("image-context-large", "", message, fix)


def _accepted(problem: Problem) -> Problem:
    return warning(problem.id, problem.where, f"{problem.message} (accepted)", "")

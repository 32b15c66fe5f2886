"""The files that are put into an image: which are left out, and what is refused before anything is sent. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from xsft.base.amounts import size_text
from xsft.base.problems import Problem, error, warning
from xsft.base.secrets import looks_token

LIMIT = 500 * 2**20
"""Largest content accepted, in bytes; MaxText's own tree is 30 MB."""
LARGEST = 5
ACCEPTABLE = ("image-context-large", "disk-full")
"""Problem ids that `--accept` takes."""
NEVER = frozenset(
    {".git", ".hg", ".svn", ".venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
    | {".ipynb_checkpoints", ".DS_Store", ".dockerignore"}
)
"""Names of files and folders that enter no image and no image's identity: version control, environments, caches."""

_SECRET_NAMES = re.compile(
    r"\.env(\.(?!example$|sample$|template$)[^/]+)?|\.netrc|\.git-credentials|\.pypirc|\.dockercfg|\.boto"
    r"|id_(rsa|dsa|ecdsa|ed25519)|(hf[-_]?)?\.?token|application_default_credentials\.json|kubeconfig",
    re.IGNORECASE,
)
_ARGUMENT = re.compile(r"^[ \t]*ARG[ \t]+(.*)$", re.IGNORECASE | re.MULTILINE)
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:=(\"[^\"]*\"|'[^']*'|\S*))?")
_LINE_END = rb"(?:\s|\\[rn])"
_HEADERS = rb"(?:[A-Za-z-]+: [^\n\\]*(?:\n|\\[rn])" + _LINE_END + rb"*)*"
_PEM = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----" + _LINE_END + rb"+" + _HEADERS + rb"[A-Za-z0-9+/]{40}")
"""A PEM header and the first line of the key: code that only mentions the header does not match. source: RFC 7468, RFC
1421 (headers); `\n` is a line's end in JSON.
"""
_WILDCARDS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
"""Wildcards of `.dockerignore` as regular expressions. source: moby v28 pkg/patternmatcher."""


class ContextFile(Struct, frozen=True, kw_only=True):
    """One file or link that is put into an image."""

    path: str
    """Path in the context, or in the image without the leading slash."""
    kind: Literal["file", "link"]
    size: int = 0
    """Bytes."""
    executable: bool = False
    sha256: str = ""
    """Hash of the content, 64 hex digits; files only."""
    target: str | None = None
    """Target of a link, as written."""
    dangling: bool = False
    """A link whose target is missing or outside the context."""
    source: str = ""
    """Absolute path of the file on this machine; empty: its content is `content`."""
    content: bytes = b""
    """Of a file that xsft makes."""


def ignore_matcher(rules: str) -> Callable[[str], bool]:
    """Return a function that tells whether a path (with `/`) is ignored by a `.dockerignore`: the last rule that
    matches wins, `!` includes again, and a rule for a folder applies to everything below it.
    """
    patterns = []
    for line in rules.removeprefix("\ufeff").splitlines():
        rule = line.strip()
        if rule and not line.startswith("#"):
            patterns.append((re.compile(_expression(rule.lstrip("!").strip())), rule.startswith("!")))

    def is_ignored(path: str) -> bool:
        ignored = False
        above = [path]
        while "/" in above[-1]:
            above.append(above[-1].rpartition("/")[0])
        for pattern, includes in patterns:
            if any(pattern.fullmatch(folder) for folder in above):
                ignored = not includes
        return ignored

    return is_ignored


def context_problems(
    files: Sequence[ContextFile], *, secrets: Mapping[str, str], limit: int = LIMIT
) -> Iterator[Problem]:
    """Yield the problems `image-context-link`, `image-context-secret` and `image-context-large`. `secrets`: by path,
    what kind of secret the content looks like, e.g. `a private key`; never its value.
    """
    for file in files:
        if file.dangling:
            how = "points outside the context"
            if str(file.target).startswith("/"):
                how = "is absolute"
            message = f"{file.path} is a link to {file.target}, which {how}: it would be broken in the image."
            fix = "Replace it with the file, or exclude it in .dockerignore."
            yield error("image-context-link", "", message, fix)
    for file in files:
        kind = secrets.get(file.path, "")
        if not kind and file.kind == "file" and _SECRET_NAMES.fullmatch(file.path.rpartition("/")[2]):
            kind = "what such a file usually holds"
        if kind:
            message = f"{file.path} would be in the image, readable by everyone who can pull it: {kind}."
            fix = "Add it to .dockerignore; a run gets its secrets from Kubernetes (secrets: in the workload)."
            yield error("image-context-secret", "", message, fix)
    size = size_of(files)
    if size > limit:
        names = ", ".join(f"{file.path} ({size_text(file.size)})" for file in largest(files))
        message = f"The image's files have {size_text(size)}; the limit is {size_text(limit)}. Largest files: {names}."
        fix = "Add what the image does not need to .dockerignore, or pass --accept image-context-large."
        yield error("image-context-large", "", message, fix, kind="disputable")


def accept_problems(problems: Iterable[Problem], ids: Sequence[str]) -> tuple[Problem, ...]:
    """Turn accepted problems into warnings; only those that are disputable may be accepted, not a broken link or a
    secret.
    """
    judged = []
    for problem in problems:
        is_accepted = problem.id in ids and problem.can_be_accepted
        accepted = warning(problem.id, problem.where, f"{problem.message} (accepted)", "")
        judged.append(accepted if is_accepted else problem)
    return tuple(judged)


def size_of(files: Iterable[ContextFile]) -> int:
    """Return the total size in bytes."""
    return sum(file.size for file in files)


def largest(files: Iterable[ContextFile], *, count: int = LARGEST) -> tuple[ContextFile, ...]:
    return tuple(sorted((file for file in files if file.size), key=lambda file: (-file.size, file.path))[:count])


def dockerfile_arguments(text: str) -> dict[str, str | None]:
    """Return each build argument and its default (None without one). The first default counts: the one before FROM."""
    arguments: dict[str, str | None] = {}
    for declarations in _ARGUMENT.findall(text):
        for name, default in _NAME.findall(declarations.partition(" #")[0]):
            arguments[name] = arguments.get(name) or default.strip("\"'") or None
    return arguments


def secret_in(content: bytes) -> str:
    """Return what kind of secret the content looks like, never its value; empty for none."""
    if _PEM.search(content):
        return "a private key"
    return "what looks like a token" if looks_token(content.decode("latin-1")) else ""


def _expression(pattern: str) -> str:
    """Translate a pattern; classes of characters, `*.py[co]`, are the same in both languages."""
    path = posixpath.normpath(pattern).lstrip("/")
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", path)
    return "".join(part if part.startswith("[") else _WILDCARDS.get(part, re.escape(part)) for part in parts)

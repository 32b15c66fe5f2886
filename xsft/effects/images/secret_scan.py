"""The scan of a build context for secrets. A fork of MaxText takes a second, so contents without one are remembered."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import DecodeError, Struct, json
from msgspec.structs import replace

from xsft.base import secret_shapes, secrets
from xsft.base.errors import EnvironmentMissing
from xsft.effects.images.context import context_unread
from xsft.image import context
from xsft.image.model import ContextFile
from xsft.machine.files import write_private

SCANNED = 1 << 20
"""Maximum size of a scanned file, in bytes; larger files are data."""

RULES = (
    *(Path(str(module.__file__)) for module in (context, secrets, secret_shapes)),
    secret_shapes.RULES,
)
"""Files that decide what a secret is."""


class CleanContents(Struct, frozen=True):
    """The contents of the last scan that hold no secret."""

    rules: str
    """Digest of the rules; under other rules they may hold one."""
    sha256: tuple[str, ...]


_CLEAN_CONTENTS = json.Decoder(CleanContents)


def scan(files: Sequence[ContextFile], *, memory: Path) -> tuple[ContextFile, ...]:
    """Return the files as they are now, each with the kind of secret in it. `memory`: the file of the CleanContents.

    Raises EnvironmentMissing if a file cannot be read.
    """
    known = _clean_contents(memory)
    found = tuple(_scan_file(f, known) for f in files)
    clean = tuple(sorted({f.sha256 for f in found if _is_scanned(f) and not f.secret}))
    if not known.issuperset(clean):
        with suppress(OSError, EnvironmentMissing):  # the next scan takes longer
            write_private(memory, json.encode(CleanContents(_rules_digest(), clean)))
    return found


def _is_scanned(f: ContextFile) -> bool:
    return f.kind == "file" and f.size <= SCANNED


def _scan_file(f: ContextFile, known: Collection[str]) -> ContextFile:
    if not _is_scanned(f) or f.sha256 in known:
        return f
    try:
        content = Path(f.source).read_bytes()
    except OSError as failed:
        raise context_unread(Path(f.source), failed) from None
    return replace(f, sha256=hashlib.sha256(content).hexdigest(), secret=context.secret_in(content))


def _clean_contents(memory: Path) -> frozenset[str]:
    try:
        kept = _CLEAN_CONTENTS.decode(memory.read_bytes())
    except (OSError, DecodeError, UnicodeDecodeError):
        return frozenset()
    return frozenset(kept.sha256 if kept.rules == _rules_digest() else ())


@cache
def _rules_digest() -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in RULES)).hexdigest()

"""What a launcher renders, or has rendered. Pure data."""

from __future__ import annotations

from msgspec import Struct

from xsft.launchers.pointers import Json


class XpkLine(Struct, frozen=True, kw_only=True):
    """The manifest is what xpk writes for this line."""

    argv: tuple[str, ...]


class Manifest(Struct, frozen=True, kw_only=True):
    """The launcher has rendered it itself."""

    document: Json


Rendering = XpkLine | Manifest

"""What a launcher renders, or has rendered. Pure data."""

from __future__ import annotations

from msgspec import Struct

from xsft.launchers.pointers import Json


class XpkRendering(Struct, frozen=True, kw_only=True):
    """The manifest is what xpk writes for this line."""

    argv: tuple[str, ...]


class ReadyRendering(Struct, frozen=True, kw_only=True):
    """The launcher has rendered it itself."""

    document: Json


Rendering = XpkRendering | ReadyRendering

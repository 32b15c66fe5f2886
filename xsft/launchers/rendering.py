"""The rendering of a launcher: a line to render, or a manifest. Pure data."""

from __future__ import annotations

from msgspec import Struct

from xsft.launchers.pointers import Json


class XpkRendering(Struct, frozen=True, kw_only=True):
    """A rendering by xpk: the manifest is what xpk writes for this line."""

    argv: tuple[str, ...]


class ReadyRendering(Struct, frozen=True, kw_only=True):
    """A manifest that the launcher rendered itself."""

    document: Json


Rendering = XpkRendering | ReadyRendering

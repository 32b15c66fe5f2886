"""Reads an image's contents from its configuration: platform, packages, and for what it was built. Pure.

source: OCI image-spec v1.1 config.md; maxtext@0.2.4 src/dependencies/dockerfiles/maxtext_tpu_dependencies.Dockerfile
(ENV_JAX_VERSION, ENV_LIBTPU_VERSION, ENV_DEVICE, ENV_WORKFLOW, MAXTEXT_PKG_DIR).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from xsft.catalog.releases import Layout
from xsft.image.recipe import MAXTEXT_LABEL, PACKAGES, PACKAGES_LABEL
from xsft.image.reference import parse_reference

PINNED = re.compile(rf"(?<![\w.-])({'|'.join(PACKAGES)})(?:\[[\w, -]*\])?==([0-9]+(?:\.[0-9]+)+)")
JAX_TAG = re.compile(r"(?:^|[-_.])jax[-_]?([0-9]+(?:\.[0-9]+)+)")
"""Tags of Pathways' images (jax-0.11.0, 20250819-jax_0.7.0) and of Google's JAX images (jax0.7.0-rev1)."""
VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)+")
FROM_ENV = {"ENV_JAX_VERSION": "jax", "ENV_LIBTPU_VERSION": "libtpu"}
ENV_NAMES = frozenset({*FROM_ENV, "ENV_DEVICE", "ENV_WORKFLOW", "MAXTEXT_PKG_DIR"})
"""The variables that are read; others may hold secrets."""
LAYOUTS: Mapping[str, Layout] = {"/maxtext": "current", "/MaxText": "legacy"}


class ImageConfiguration(Struct, frozen=True, kw_only=True):
    """The parts of an image's configuration that describe it."""

    platforms: tuple[str, ...]
    """`linux/amd64`; several for an index."""
    size: int = 0
    """Bytes stored: compressed."""
    labels: Mapping[str, str] = {}
    env: Mapping[str, str] = {}
    """Those of ENV_NAMES."""
    entrypoint: tuple[str, ...] = ()
    made_by: tuple[str, ...] = ()
    """The command of each layer."""


class ImageContents(Struct, frozen=True, kw_only=True):
    """The known contents of an image; None or empty for what its configuration does not give."""

    packages: Mapping[str, str]
    """Version by the package's name, of PACKAGES."""
    layout: Layout | None = None
    device: str | None = None
    """`tpu` or `gpu`: for which MaxText's own Dockerfile built it."""
    lacks_libtpu: bool = False
    """Whether the label of its packages names JAX and not libtpu."""
    workflow: str | None = None
    """`pre-training` or `post-training`, of MaxText's own Dockerfile."""

    @property
    def is_known(self) -> bool:
        return bool(self.packages) or self.layout is not None


ImageStatus = Literal["there", "missing", "unread"]


class ImageLook(Struct, frozen=True, kw_only=True):
    """The result of reading an image's registry."""

    ref: str
    status: ImageStatus
    asked_with: str = "your login"
    """Login whose rights were used: `your login`, `no login`."""
    why: str = ""
    """Why it could not be read."""
    configuration: ImageConfiguration | None = None
    """None also for content without a configuration."""


def contents_of(configuration: ImageConfiguration, ref: str) -> ImageContents:
    """Return what labels, environment, commands and the tag tell; labels of xsft rank first."""
    labels = configuration.labels
    env = configuration.env
    packages: dict[str, str] = {}  # what is known best comes last
    if version := jax_of_tag(ref):
        packages["jax"] = version
    for command in configuration.made_by:
        packages.update(PINNED.findall(command))
    for name, package in FROM_ENV.items():
        if VERSION.fullmatch(env.get(name, "")):
            packages[package] = env[name]
    pins = dict(PINNED.findall(labels.get(PACKAGES_LABEL, "")))
    packages |= pins
    if maxtext := labels.get(MAXTEXT_LABEL):
        packages["maxtext"] = maxtext
    folder = env.get("MAXTEXT_PKG_DIR", "")
    return ImageContents(
        packages=packages,
        layout=next((layout for end, layout in LAYOUTS.items() if folder.endswith(end)), None),
        device=env.get("ENV_DEVICE") or None,
        lacks_libtpu="jax" in pins and "libtpu" not in pins,
        workflow=env.get("ENV_WORKFLOW") or None,
    )


def jax_of_tag(ref: str) -> str | None:
    """Return the JAX version in the reference's tag; None if it has none."""
    tag = parse_reference(ref).tag
    match = JAX_TAG.search(tag or "")
    return match[1] if match else None


def older(version: str, than: str) -> bool:
    """Return whether a version of numbers and dots is older."""
    return _version_numbers(version) < _version_numbers(than)


def same_minor(version: str, other: str) -> bool:
    """Return whether the first two numbers are the same."""
    return _version_numbers(version)[:2] == _version_numbers(other)[:2]


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())

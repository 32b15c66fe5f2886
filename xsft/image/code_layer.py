"""The code's layers and the image that has them, computed without an engine: the same files give the same bytes, and so
the same digest, on every machine. Pure.

source: OCI image-spec v1.1 layer.md (whiteouts), config.md, manifest.md; Docker's image manifest V2, schema 2, which
engines push, has the same fields under other media types.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xsft.base.lenient import mapping
from xsft.image.context import ContextFile

RECORD = "usr/share/xsft/deps.json"
"""File in the last layer of the dependencies' image: what the image was made from, and what it has installed."""
PROGRAMS = "usr/share/xsft/programs"
"""Folder of the programs of xsft that run in the image."""
CODE = "app/code"
"""Folder of the user's code, on PYTHONPATH."""
OVERLAYS = ("maxtext", "tunix")
"""Packages that a user's source tree may replace."""
REMOVED_SUFFIXES = frozenset({".py", ".yml"})
"""Suffixes of installed files that are removed where the tree lacks them: a stale module would hide a broken import.
Other files stay, so that a tree may come without MaxText's 30 MB of tokenizers.
"""
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_LAYER_TYPES = {
    OCI_MANIFEST: "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.docker.distribution.manifest.v2+json": "application/vnd.docker.image.rootfs.diff.tar.gzip",
}


class DepsRecord(Struct, frozen=True, kw_only=True):
    """The content of RECORD, which images/post_training/install.py writes."""

    lock_sha256: str
    """sha256 of the locked packages that are installed."""
    site: str = ""
    """Folder of the installed packages, without the leading slash."""
    cache_tag: str = ""
    """Part of the name of byte code files: `cpython-312`."""
    packages: Mapping[str, Mapping[str, str]] = {}
    """For each of OVERLAYS: path in the package -> sha256 of the installed file."""


class Layer(Struct, frozen=True, kw_only=True):
    """A layer as it is sent."""

    digest: str
    """Digest of the compressed bytes."""
    diff_id: str
    """Digest of the tar."""
    size: int
    """Compressed, bytes."""


class ImageDocuments(Struct, frozen=True, kw_only=True):
    """The two documents of an image, as bytes: their digests are what the image is."""

    media_type: str
    manifest: bytes
    configuration: bytes

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)


class _Descriptor(Struct, frozen=True, kw_only=True):
    digest: str = ""
    size: int = 0
    media_type: str = msgspec.field(default="", name="mediaType")
    platform: Mapping[str, Any] | None = None


class Manifest(Struct, frozen=True, kw_only=True):
    """A manifest or an index. source: OCI image-spec v1.1 manifest.md, image-index.md."""

    media_type: str = msgspec.field(default="", name="mediaType")
    config: _Descriptor | None = None
    layers: tuple[_Descriptor, ...] | None = ()
    manifests: tuple[_Descriptor, ...] | None = ()

    @property
    def platforms(self) -> dict[str, str]:
        """For an index: `linux/amd64` -> digest of the manifest. Attestations, of platform `unknown`, are left out."""
        named = ((descriptor.platform or {}, descriptor.digest) for descriptor in self.manifests or ())
        pairs = ((f"{platform.get('os')}/{platform.get('architecture')}", digest) for platform, digest in named)
        return {name: digest for name, digest in pairs if "unknown" not in name and "None" not in name}

    @property
    def size(self) -> int:
        """Bytes stored: configuration and layers, compressed."""
        parts = [self.config, *(self.layers or ())]
        return sum(part.size for part in parts if part)


# Created at import: msgspec@0.22.0 crashes if two threads do this for one type.
MANIFEST = msgspec.json.Decoder(Manifest)
_RECORD = msgspec.json.Decoder(DepsRecord)


def decode_record(content: bytes) -> DepsRecord | None:
    """Return the content of RECORD; None if it is not what install.py writes."""
    try:
        return _RECORD.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return None


def overlaid_packages(files: Iterable[ContextFile]) -> frozenset[str]:
    """Return the packages that the code's files replace."""
    return frozenset(file.path.partition("/")[0] for file in files) & frozenset(OVERLAYS)


def program_files(files: Iterable[ContextFile]) -> tuple[ContextFile, ...]:
    """Return the programs of xsft at their path in the image. They change with xsft, not with the user's code, and so
    have a layer of their own.
    """
    return tuple(_moved(file, "xsft", PROGRAMS) for file in files if file.path.startswith("xsft/"))


def code_files(files: Iterable[ContextFile], record: DepsRecord) -> tuple[ContextFile, ...]:
    """Return what the code's layer holds, by path in the image: the user's folders, the files of a fork that differ
    from the installed ones, and whiteouts.
    """
    files = tuple(files)
    contents = [_moved(file, "code", CODE) for file in files if file.path.startswith("code/")]
    for package in sorted(overlaid_packages(files)):
        tree = [_moved(file, package, "") for file in files if file.path.startswith(f"{package}/")]
        contents += _overlay(tree, f"{record.site}/{package}", record.packages.get(package, {}), record.cache_tag)
    return tuple(contents)


def with_layers(deps: ImageDocuments, layers: Iterable[Layer], *, user: str) -> ImageDocuments:
    """Return the image that has these layers on top of the dependencies. It depends on nothing else, above all not on
    the time.
    """
    layers = tuple(layers)
    configuration: dict[str, Any] = json.loads(deps.configuration)
    configuration["rootfs"]["diff_ids"] += [layer.diff_id for layer in layers]
    history = {"created": configuration.get("created"), "created_by": "xsft image push", "comment": "code"}
    configuration["history"] = [*configuration.get("history", ()), *(history for _ in layers)]
    settings = mapping(configuration, "config")
    variables = [variable for variable in settings.get("Env") or () if not variable.startswith("PYTHONPATH=")]
    configuration["config"] = {
        **settings,
        "User": user,
        "Env": [*variables, f"PYTHONPATH=/{CODE}"],
        "Labels": {**mapping(settings, "Labels"), "dev.xsft.kind": "code"},
    }
    for name in ("container", "container_config", "id", "parent"):  # of the engine's build, not of this image
        configuration.pop(name, None)
    configuration_bytes = _canonical(configuration)
    manifest: dict[str, Any] = json.loads(deps.manifest)
    manifest["config"] = {
        **manifest["config"],
        "digest": digest_of(configuration_bytes),
        "size": len(configuration_bytes),
    }
    layer_type = _LAYER_TYPES.get(deps.media_type, _LAYER_TYPES[OCI_MANIFEST])
    manifest["layers"] += [{"mediaType": layer_type, "digest": layer.digest, "size": layer.size} for layer in layers]
    return ImageDocuments(media_type=deps.media_type, manifest=_canonical(manifest), configuration=configuration_bytes)


def is_same_image(first: ImageDocuments, other: ImageDocuments) -> bool:
    """Return whether two images have the same content, though another zlib may have compressed a layer: the
    configuration names every layer by the digest of its tar, which engines verify when they unpack it.
    """
    return first.configuration == other.configuration


def has_code(image: ImageDocuments, layers: Iterable[Layer]) -> bool:
    """Return whether the image ends with these layers, on whichever build of the dependencies."""
    diff_ids = [layer.diff_id for layer in layers]
    try:
        return bool(json.loads(image.configuration)["rootfs"]["diff_ids"][-len(diff_ids) :] == diff_ids)
    except (ValueError, LookupError, TypeError, RecursionError):  # anybody may have pushed it
        return False


def digest_of(content: bytes | memoryview) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _overlay(
    tree: Iterable[ContextFile], folder: str, installed: Mapping[str, str], cache_tag: str
) -> Iterator[ContextFile]:
    """Yield the tree's files that are not installed with the same content; a whiteout for each module that the tree
    lacks, and for the byte code of each changed one, which Python would not compare with its source.
    """
    ours = {file.path: file for file in tree}
    changed = [file for path, file in ours.items() if installed.get(path) != file.sha256]
    removed = [path for path in installed if path not in ours and posixpath.splitext(path)[1] in REMOVED_SUFFIXES]
    yield from (replace(file, path=f"{folder}/{file.path}") for file in changed)
    stale = []
    for path in (*removed, *(file.path for file in changed if file.path in installed)):
        stem, suffix = posixpath.splitext(posixpath.basename(path))
        if suffix == ".py":
            stale.append(posixpath.join(posixpath.dirname(path), "__pycache__", f"{stem}.{cache_tag}.pyc"))
    for path in (*removed, *stale):
        above, name = posixpath.split(f"{folder}/{path}")
        yield ContextFile(path=f"{above}/.wh.{name}", kind="file")  # empty: it removes the file of a lower layer


def _moved(file: ContextFile, folder: str, to: str) -> ContextFile:
    return replace(file, path=posixpath.join(to, file.path.removeprefix(f"{folder}/")))


def _canonical(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

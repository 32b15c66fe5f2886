"""An engine and registries in memory, as `xsft.image.push` uses them: what is pushed is what is there."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from xsft.base.errors import EnvironmentMissing, Unreachable, XsftError
from xsft.image.build import Build
from xsft.image.code_layer import RECORD, ImageDocuments, Manifest, digest_of
from xsft.image.engine import EngineImage

OCI = "application/vnd.oci.image.manifest.v1+json"


def image_of(
    record: Mapping[str, Any] | None, *, labels: Mapping[str, str] | None = None
) -> tuple[ImageDocuments, bytes]:
    """Return the documents of a small image, and its only layer. `record`: content of RECORD; None: no such file."""
    with tarfile.open(fileobj=(packed := io.BytesIO()), mode="w") as tar:
        content = json.dumps(record).encode()
        entry = tarfile.TarInfo("other" if record is None else RECORD)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    layer = gzip.compress(packed.getvalue(), mtime=0)
    configuration = json.dumps(
        {"config": {"Labels": dict(labels or {})}, "rootfs": {"diff_ids": [digest_of(packed.getvalue())]}}
    ).encode()
    manifest = {
        "mediaType": OCI,
        "config": {"digest": digest_of(configuration), "size": len(configuration)},
        "layers": [{"digest": digest_of(layer), "size": len(layer)}],
    }
    documents = ImageDocuments(media_type=OCI, manifest=json.dumps(manifest).encode(), configuration=configuration)
    return documents, layer


@dataclass
class FakeRepository:
    """Answers for every name; `maker.repository(name, env=…)` returns it."""

    name: str = ""
    images: dict[str, ImageDocuments] = field(default_factory=dict)
    """By tag and by digest."""
    blobs: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    down: bool = False
    refuses: XsftError | None = None
    """What a push is told."""
    forgets: bool = False
    """Whether a pushed manifest is not there afterwards."""

    def __call__(self, name: str, *, env: Mapping[str, str]) -> FakeRepository:
        self.name = name
        return self

    @property
    def at(self) -> Any:
        return SimpleNamespace(identifier=self.name.rpartition(":")[2])

    def add(self, tag: str, image: tuple[ImageDocuments, bytes]) -> str:
        documents, layer = image
        self.blobs |= {digest_of(content): content for content in (layer, documents.configuration)}
        self.images |= {tag: documents, documents.digest: documents}
        return documents.digest

    def manifest(self, reference: str) -> tuple[bytes, Manifest] | None:
        image = self.image(reference)
        return (image.manifest, Manifest()) if image else None

    def image(self, reference: str) -> ImageDocuments | None:
        self.asked.append(reference)
        if self.down:
            raise Unreachable("the registry does not answer", id="registry-unreachable")
        return self.images.get(reference)

    def blob(self, digest: str) -> bytes:
        return self.blobs[digest]

    def refuse_unless_pushable(self) -> None:
        if self.refuses:
            raise self.refuses

    def add_blob(self, content: bytes) -> int:
        digest = digest_of(content)
        byte_count = 0 if digest in self.blobs else len(content)
        self.blobs[digest] = content
        return byte_count

    def put_manifest(self, image: ImageDocuments, *, tag: str) -> None:
        if not self.forgets:
            self.images |= {tag: image, image.digest: image}


@dataclass
class FakeEngine:
    registry: FakeRepository
    record: Mapping[str, Any]
    """What a build of the dependencies records."""
    images: dict[str, EngineImage] = field(default_factory=dict)
    contents: dict[str, list[str]] = field(default_factory=dict)
    """Paths of the context by the name of the image that was built from it."""
    did: list[str] = field(default_factory=list)
    free: int | None = None
    missing: bool = False

    def connect(self, _env: Mapping[str, str]) -> FakeEngine:
        if self.missing:
            raise EnvironmentMissing("The Docker engine does not answer.", id="docker-not-running")
        return self

    def image(self, ref: str) -> EngineImage | None:
        return self.images.get(ref)

    def free_bytes(self) -> int | None:
        return self.free

    def build(self, build: Build, *, engine: Any, on_line: Callable[[str], None]) -> None:
        self.did.append(f"build {build.name.rpartition(':')[2].partition('-')[0]}")
        self.images[build.name] = EngineImage(id=hashed(build.name), digests=(), labels=build.labels)
        self.contents[build.name] = [file.path for file in build.files]

    def pull(self, ref: str, *, on_line: Callable[[str], None]) -> EngineImage:
        self.did.append(f"pull {ref}")
        self.images[ref] = EngineImage(id=hashed(ref), digests=(ref,), labels={})
        return self.images[ref]

    def tag(self, ref: str, *, repository: str, tag: str) -> None:
        self.images[f"{repository}:{tag}"] = self.images[ref]

    def read_file(self, ref: str, path: str) -> bytes | None:
        return json.dumps(self.record).encode() if ref in self.images else None

    def push(self, ref: str, *, repository: str, tag: str, on_line: Callable[[str], None]) -> str:
        self.did.append(f"push {tag.partition('-')[0]}")
        return self.registry.add(tag, image_of(self.record, labels=self.images[ref].labels))


def hashed(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def names_in(layer: bytes) -> Iterator[str]:
    """Yield the files of a pushed layer."""
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(layer))) as tar:
        yield from (member.name for member in tar.getmembers() if not member.isdir())

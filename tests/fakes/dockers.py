"""An engine and a registry in memory, as `xsft.effects.images.build` wants them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xsft.base.errors import Unreachable, XsftError
from xsft.effects.images.docker_client import EngineImage
from xsft.effects.images.registry_client import RegistryImage
from xsft.image.contents import ImageConfiguration
from xsft.image.model import Base, BuildStep
from xsft.image.progress import BuildEvent


@dataclass
class FakeRegistry:
    """`images`: reference with tag or digest -> digest."""

    images: dict[str, str] = field(default_factory=dict)
    labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """By digest."""
    asked: list[str] = field(default_factory=list)
    down: bool = False
    refuses: XsftError | None = None
    """What a push is told."""

    def manifest_digest(self, ref: str) -> str | None:
        self.asked.append(ref)
        if self.down:
            raise Unreachable("the registry does not answer", id="registry-unreachable")
        return self.images.get(ref)

    def image(self, ref: str) -> RegistryImage | None:
        digest = self.manifest_digest(ref)
        if digest is None:
            return None
        made = ImageConfiguration(platforms=(), labels=self.labels.get(digest, {}))
        return RegistryImage(digest=digest, configuration=made)

    def try_push(self, repository: str) -> None:
        if self.refuses:
            raise self.refuses

    def take(self, repository: str, tag: str, digest: str, labels: Mapping[str, str]) -> None:
        self.images[f"{repository}:{tag}"] = self.images[f"{repository}@{digest}"] = digest
        self.labels[digest] = labels


@dataclass
class FakeDocker:
    registry: FakeRegistry
    held: dict[str, str] = field(default_factory=dict)
    """Reference -> what it was made of."""
    held_labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """By what it was made of."""
    bases: dict[str, Base] = field(default_factory=dict)
    did: list[str] = field(default_factory=list)
    pulled: list[str] = field(default_factory=list)
    """References."""
    before_push: Callable[[str], None] = lambda _ref: None
    after_push: Callable[[str, str], str] = lambda _ref, digest: digest
    builds_differ_by: str = ""
    """Two machines make other bytes of the same content: times."""

    def labels(self, ref: str) -> Mapping[str, str] | None:
        return self.held_labels.get(self.held[ref], {}) if ref in self.held else None

    def images(self, image: str) -> Sequence[EngineImage]:
        return ()

    def base(self, ref: str) -> Base | None:
        return self.bases.get(ref)

    def build(self, step: BuildStep, *, name: str, on_event: Callable[[BuildEvent], None]) -> None:
        if step.name == "code" and step.args["DEPS_IMAGE"] not in self.held:
            raise AssertionError("the dependencies are not there to build on")
        self.did.append(f"build {step.name}")
        self.held[name] = f"{step.tag}{self.builds_differ_by}"
        self.held_labels[self.held[name]] = step.labels

    def pull(self, ref: str, *, on_event: Callable[[BuildEvent], None]) -> None:
        self.did.append("pull")
        self.pulled.append(ref)
        self.held[ref] = digest = self.registry.images[ref]
        self.held_labels[digest] = self.registry.labels[digest]

    def tag(self, ref: str, *, repository: str, tag: str) -> None:
        self.held[f"{repository}:{tag}"] = self.held[ref]

    def push(self, image: str, *, repository: str, tag: str, on_event: Callable[[BuildEvent], None]) -> str:
        self.before_push(f"{repository}:{tag}")
        self.did.append(f"push {tag.partition('-')[0]}")
        digest = f"sha256:{hashlib.sha256(self.held[image].encode()).hexdigest()}"
        self.registry.take(repository, tag, digest, self.held_labels[self.held[image]])
        return self.after_push(f"{repository}:{tag}", digest)

"""The real engine, for `images.build`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from xsft.effects.images.docker_build import BuildClient, build, find_client
from xsft.effects.images.docker_client import Engine, EngineImage, connect_engine
from xsft.effects.images.docker_login import Credential, google_credential
from xsft.effects.images.docker_push import Pusher, pusher
from xsft.effects.images.installed import thin_step
from xsft.effects.images.registry_client import Registries
from xsft.image.model import Base, BuildStep
from xsft.image.progress import BuildEvent
from xsft.image.recipe import IMAGE_LABEL
from xsft.image.reference import parse_reference
from xsft.machine.paths import own_cache


@dataclass(frozen=True, kw_only=True)
class RealDocker:
    """One engine, its docker command and the user's logins."""

    engine: Engine
    registries: Registries
    env: Mapping[str, str] = field(repr=False)

    @cached_property
    def client(self) -> BuildClient:
        """Return the docker command, searched only if something must be built."""
        return find_client(self.env)

    def labels(self, ref: str) -> Mapping[str, str] | None:
        found = self.engine.image(ref)
        return found.labels if found else None

    def images(self, image: str) -> tuple[EngineImage, ...]:
        return self.engine.images(label=f"{IMAGE_LABEL}={image}")

    def base(self, ref: str) -> Base | None:
        found = self.engine.image(ref)
        if found is None:
            return None
        digest = found.digest_in(parse_reference(ref).name)
        return Base(ref=ref, digest=digest, image_id=None if digest else found.id)

    def build(self, step: BuildStep, *, name: str, on_event: Callable[[BuildEvent], None]) -> None:
        below = self.engine.image(step.args["DEPS_IMAGE"]) if "DEPS_IMAGE" in step.args else None
        if below is not None:
            cache = own_cache() / "image-installed"
            step = thin_step(step, image_id=below.id, docker=self.client.path, env=self.env, cache=cache)
        build(step, engine=self.engine, client=self.client, names=(name,), logins=self._logins(step), on_event=on_event)

    def pull(self, ref: str, *, on_event: Callable[[BuildEvent], None]) -> None:
        self._pusher().pull(ref, on_event=on_event)

    def tag(self, ref: str, *, repository: str, tag: str) -> None:
        self.engine.tag(ref, repository=repository, tag=tag)

    def push(self, image: str, *, repository: str, tag: str, on_event: Callable[[BuildEvent], None]) -> str:
        return self._pusher().push(image, repository=repository, tag=tag, on_event=on_event)

    def _pusher(self) -> Pusher:
        return pusher(self.engine, registries=self.registries)

    def _logins(self, step: BuildStep) -> tuple[Credential, ...]:
        """Return the logins for a base in one of Google's registries; the build has the user's other logins anyway."""
        host = parse_reference(step.args["BASE_IMAGE"]).host if step.args.get("BASE_IMAGE") else ""
        found = google_credential(host, env=self.env)
        return (found,) if found else ()


def real_docker(*, registries: Registries, env: Mapping[str, str]) -> RealDocker:
    """Return the engine. Raises EnvironmentMissing if none answers."""
    return RealDocker(engine=connect_engine(env), registries=registries, env=env)

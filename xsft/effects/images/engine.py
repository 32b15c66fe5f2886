"""The real engine and the base image, for `images.build`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from xsft.effects.images.build import Docker, Registry
from xsft.effects.images.docker_build import Client, build, find_client
from xsft.effects.images.docker_client import Engine, ImageSeen, connect_engine
from xsft.effects.images.docker_login import Credential, google_credential
from xsft.effects.images.docker_push import Pusher, pusher
from xsft.effects.images.installed import thinned
from xsft.effects.images.registry_client import Registries
from xsft.effects.machine.paths import own_cache
from xsft.errors import EnvironmentMissing, Refused, XsftError
from xsft.image.model import Base, BuildStep, Locked
from xsft.image.progress import BuildEvent
from xsft.image.recipe import IMAGE_LABEL, base_of
from xsft.image.reference import parse_reference


@dataclass(frozen=True, kw_only=True)
class RealDocker:
    """One engine, its docker command and the user's logins."""

    engine: Engine
    registries: Registries
    env: Mapping[str, str] = field(repr=False)

    @cached_property
    def client(self) -> Client:
        """Return the docker command, searched only if something must be built."""
        return find_client(self.env)

    def labels(self, ref: str) -> Mapping[str, str] | None:
        found = self.engine.image(ref)
        return found.labels if found else None

    def images(self, image: str) -> tuple[ImageSeen, ...]:
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
            step = thinned(step, image_id=below.id, docker=self.client.path, env=self.env, cache=cache)
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


def resolve_base(
    ref: str | None,
    *,
    pinned: Base | None,
    held: Iterable[Locked],
    docker: Callable[[], Docker],
    registry: Registry,
    again: bool,
) -> Base | None:
    """Return the digest of the base, or None if the Dockerfile uses no base. Taken from the lock (so that all users
    build on the same one), else from its own digest, a pushed image, the engine or the registry. `again`: ignore the
    lock.

    Raises Refused, image-base-differs, for a base other than the lock's; EnvironmentMissing if neither the engine nor
    the registry has it; and as they do if they do not answer.
    """
    if ref is None:
        return None
    asked = Base(ref=ref.partition("@")[0], digest=parse_reference(ref).digest)
    if pinned and not again:
        if asked.ref != pinned.ref or asked.digest not in {None, pinned.digest}:
            raise _differs(asked, pinned)
        return pinned
    if asked.digest:
        return asked
    if not again:
        known = (base_of(locked.base) for locked in held)
        before = next((base for base in known if base and base.ref == ref and base.digest), None)
        if before:
            return before
    return _looked_up(ref, docker=docker, registry=registry)


def _differs(asked: Base, pinned: Base) -> Refused:
    return Refused(
        f"The lock pins the base {pinned.pinned}, and {asked.pinned} was given.",
        fix="Omit --base, or use the other one with --update-base and commit the lock.",
        id="image-base-differs",
    )


def _looked_up(ref: str, *, docker: Callable[[], Docker], registry: Registry) -> Base:
    """Return the base from the engine, which is what FROM would use, else from the registry. If neither answers, both
    errors are reported, the engine's first.
    """
    missing: EnvironmentMissing | None = None
    try:
        found = docker().base(ref)
    except EnvironmentMissing as failed:  # without an engine the registry may still have the base
        found, missing = None, failed
    if found:
        return found
    try:
        digest = registry.manifest_digest(ref)
    except XsftError as failed:
        raise (missing.beside(failed) if missing else failed) from None
    if digest is None:
        raise EnvironmentMissing(
            f"The base image {ref} is neither in the engine nor in its registry.",
            fix="Correct --base, or BASE_IMAGE in the Dockerfile.",
            id="image-absent",
        )
    return Base(ref=ref, digest=digest)

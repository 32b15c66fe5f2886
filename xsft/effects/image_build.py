"""An image, built and pushed once: what is here or in the registry is not made again, and the lock gets a digest only
after the registry has proven it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field

from xsft.effects import clock
from xsft.effects.docker_progress import Event
from xsft.effects.image_lock import keep
from xsft.errors import EnvironmentMissing, Unknown, XsftError
from xsft.image.model import Base, BuildStep, Locked, Options, Recipe
from xsft.image.recipe import local_name

Outcome = Literal["held", "in-registry", "pulled", "built", "not-needed"]


class PushedImage(Protocol):
    """What a push left in the registry."""

    @property
    def digest(self) -> str: ...

    @property
    def size(self) -> int: ...


class HeldImage(Protocol):
    """An image in the engine."""

    @property
    def tags(self) -> Sequence[str]: ...

    @property
    def digests(self) -> Sequence[str]: ...

    @property
    def size(self) -> int: ...

    @property
    def created(self) -> str: ...


class Docker(Protocol):
    """An engine, as far as images need one."""

    def holds(self, ref: str) -> bool: ...

    def images(self, image: str) -> Sequence[HeldImage]:
        """Those that xsft made of this folder of images/, newest first."""
        ...

    def base(self, ref: str) -> Base | None:
        """What the engine knows of a base image; None where it has none of that name."""
        ...

    def build(self, step: BuildStep, *, name: str, on_event: Callable[[Event], None]) -> None: ...

    def pull(self, ref: str, *, on_event: Callable[[Event], None]) -> None: ...

    def tag(self, ref: str, *, repository: str, tag: str) -> None: ...

    def push(self, image: str, *, repository: str, tag: str, on_event: Callable[[Event], None]) -> PushedImage: ...


class Registry(Protocol):
    """A registry, as far as images need one."""

    def manifest_digest(self, ref: str) -> str | None:
        """Proven by the manifest's bytes; None where there is no such image."""
        ...


class StepDone(Struct, frozen=True, kw_only=True):
    """What became of one of the two images."""

    name: Literal["deps", "code"]
    tag: str
    outcome: Outcome
    seconds: float = 0.0


class PushDone(Struct, frozen=True, kw_only=True):
    """A pushed image, as the lock has it."""

    locked: Locked
    steps: tuple[StepDone, ...]
    pushed: bool
    """False: the registry had it already."""
    lock_written: bool
    """False: the lock said the same already."""


class Maker(Struct, frozen=True, kw_only=True):
    """Builds and pushes. The engine is asked for only where something must be made or looked at there."""

    images: Path
    """The folder images/."""
    docker: Callable[[], Docker]
    """Raises EnvironmentMissing where there is no engine."""
    registry: Registry
    progress: Callable[[str], None] = lambda _line: None
    on_event: Callable[[Event], None] = lambda _event: None
    ready: Callable[[], None] = lambda: None
    """Called before the first push: sees that the repository is there."""
    now: Callable[[], str] = clock.now
    monotonic: Callable[[], float] = field(default=clock.monotonic)

    def build(self, recipe: Recipe, *, remote: bool) -> tuple[StepDone, ...]:
        """Deps and code, each only where it is missing. `remote`: what the registry has need not be here.

        Raises as the engine does. A registry that does not tell is no obstacle to building.
        """
        local = local_name(recipe.image)
        docker = self.docker()
        if docker.holds(f"{local}:{recipe.code.tag}"):
            return self._skipped(recipe, "held")
        if remote and self._in_registry(recipe, recipe.code):
            return self._skipped(recipe, "in-registry")
        return (self._deps(docker, recipe), self._step(docker, recipe, recipe.code))

    def push(self, recipe: Recipe, *, options: Options | None, commit: str | None, dirty: bool | None) -> PushDone:
        """See that the registry has the image, and write its digest into the lock.

        Raises as `build` and the engine's push do, Unreachable where the registry does not tell, Unknown where it does
        not confirm the digest: nothing is recorded then.
        """
        self.progress(f"asking {recipe.repository} for {recipe.code.tag}")
        digest = self._held_there(f"{recipe.repository}:{recipe.code.tag}")
        steps, pushed = (self._skipped(recipe, "in-registry"), False) if digest else (self._make(recipe), True)
        digest = digest or self._send(recipe)
        self._confirm(recipe, digest)
        locked = Locked(
            image=recipe.image,
            repository=recipe.repository,
            digest=digest,
            maxtext=recipe.maxtext,
            deps=recipe.deps.tag,
            code=recipe.code.tag,
            pushed_at=self.now(),
            commit=commit,
            dirty=dirty,
            base=recipe.base,
            options=options,
        )
        return PushDone(locked=locked, steps=steps, pushed=pushed, lock_written=keep(self.images, locked))

    def _held_there(self, ref: str) -> str | None:
        """Where the registry does not tell and no engine answers either, both are told, the engine first."""
        try:
            return self.registry.manifest_digest(ref)
        except XsftError as failed:
            try:
                self.docker()
            except EnvironmentMissing as missing:
                raise missing.beside(failed) from None
            raise

    def _make(self, recipe: Recipe) -> tuple[StepDone, ...]:
        """Before the repository is looked at or made: a build that fails leaves nothing there."""
        steps = self.build(recipe, remote=False)
        self.ready()
        return steps

    def _send(self, recipe: Recipe) -> str:
        """The dependencies' tag first: another machine then builds on them instead of building them."""
        docker, local = self.docker(), local_name(recipe.image)
        if docker.holds(f"{local}:{recipe.deps.tag}") and not self._in_registry(recipe, recipe.deps):
            self._push(docker, recipe, recipe.deps)
        return self._push(docker, recipe, recipe.code).digest

    def _push(self, docker: Docker, recipe: Recipe, step: BuildStep) -> PushedImage:
        self.progress(f"pushing {recipe.repository}:{step.tag}")
        image = f"{local_name(recipe.image)}:{step.tag}"
        return docker.push(image, repository=recipe.repository, tag=step.tag, on_event=self.on_event)

    def _confirm(self, recipe: Recipe, digest: str) -> None:
        """A second question, by the digest itself: what the lock names can be pulled."""
        found = self.registry.manifest_digest(f"{recipe.repository}@{digest}")
        if found != digest:
            said = f"has {found} under it" if found else "does not have it"
            raise Unknown(
                f"{recipe.repository}@{digest} was pushed, and the registry {said}: nothing is recorded.",
                fix="Push again; if it stays so, ask whoever runs the registry.",
                id="push-unconfirmed",
            )

    def _deps(self, docker: Docker, recipe: Recipe) -> StepDone:
        """Here, else pulled, else built."""
        local, step = local_name(recipe.image), recipe.deps
        if docker.holds(f"{local}:{step.tag}"):
            return StepDone(name="deps", tag=step.tag, outcome="held")
        if not self._in_registry(recipe, step):
            return self._step(docker, recipe, step)
        self.progress(f"pulling {recipe.repository}:{step.tag}")
        started = self.monotonic()
        docker.pull(f"{recipe.repository}:{step.tag}", on_event=self.on_event)
        docker.tag(f"{recipe.repository}:{step.tag}", repository=local, tag=step.tag)
        return StepDone(name="deps", tag=step.tag, outcome="pulled", seconds=self.monotonic() - started)

    def _step(self, docker: Docker, recipe: Recipe, step: BuildStep) -> StepDone:
        self.progress(f"building {step.tag}")
        started = self.monotonic()
        docker.build(step, name=f"{local_name(recipe.image)}:{step.tag}", on_event=self.on_event)
        return StepDone(name=step.name, tag=step.tag, outcome="built", seconds=self.monotonic() - started)

    def _in_registry(self, recipe: Recipe, step: BuildStep) -> bool:
        """False also where it does not tell: making it again is slow, and right."""
        if recipe.repository == local_name(recipe.image):
            return False
        try:
            return self.registry.manifest_digest(f"{recipe.repository}:{step.tag}") is not None
        except XsftError as failed:
            self.progress(f"{failed.message} (going on without it)")
            return False

    def _skipped(self, recipe: Recipe, outcome: Outcome) -> tuple[StepDone, ...]:
        deps = StepDone(name="deps", tag=recipe.deps.tag, outcome="not-needed")
        return (deps, StepDone(name="code", tag=recipe.code.tag, outcome=outcome))

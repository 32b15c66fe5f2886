"""An image, built and pushed once: what is here or in the registry is not made again, and the lock gets a digest only
after the registry has proven it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field

from xsft.effects.images.lock import keep, locked_images
from xsft.effects.machine import clock
from xsft.errors import EnvironmentMissing, Refused, Unknown, Unreachable, XsftError
from xsft.image.model import Base, BuildStep, Locked, Options, Recipe
from xsft.image.progress import Event
from xsft.image.recipe import differs, local_name

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

    def labels(self, ref: str) -> Mapping[str, str] | None:
        """Of an image that the engine holds; None where it holds none of that name."""
        ...

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


class ImageThere(Protocol):
    """An image in a registry."""

    @property
    def digest(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]: ...


class Registry(Protocol):
    """A registry, as far as images need one. The first two prove the bytes by their digest, and say None where nothing
    is.
    """

    def manifest_digest(self, ref: str) -> str | None: ...

    def image(self, ref: str) -> ImageThere | None: ...

    def try_push(self, repository: str) -> None:
        """Raises as a push would: no login, no right, no such repository."""
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
    creates: bool = False
    """`ready` makes a repository that is missing."""
    now: Callable[[], str] = clock.now
    monotonic: Callable[[], float] = field(default=clock.monotonic)

    def build(self, recipe: Recipe, *, remote: bool) -> tuple[StepDone, ...]:
        """Deps and code, each only where it is missing. `remote`: what the registry has need not be here.

        Raises as the engine does. A registry that does not tell, or has another image, is no obstacle to building.
        """
        docker = self.docker()
        if self._held(docker, recipe, recipe.code):
            return self._skipped(recipe, "held")
        if remote and self._leniently(lambda: self._there(recipe, recipe.code)):
            return self._skipped(recipe, "in-registry")
        deps = self._deps(docker, recipe, there=lambda: self._leniently(lambda: self._deps_there(recipe)))
        return (deps, self._step(docker, recipe, recipe.code))

    def push(self, recipe: Recipe, *, options: Options | None, commit: str | None, dirty: bool | None) -> PushDone:
        """See that the registry has the image, and write its digest into the lock.

        Raises as `build` and the engine's push do, Unreachable where the registry does not tell, Refused where it has
        another image under one of the two tags, Unknown where it does not confirm the digest: nothing is recorded then.
        """
        self.progress(f"asking {recipe.repository} for {recipe.code.tag}")
        code, deps = self._both_there(recipe)
        pushed = code is None
        if pushed:
            self._try_push(recipe.repository)
        steps = self._made(recipe, deps=deps) if pushed else self._skipped(recipe, "in-registry")
        if code is None:
            code, deps = self._sent(recipe, deps=deps)
        self._confirm(recipe, code)
        locked = Locked(
            image=recipe.image,
            repository=recipe.repository,
            digest=code,
            maxtext=recipe.maxtext,
            deps=recipe.deps.tag,
            deps_digest=deps,
            code=recipe.code.tag,
            pushed_at=self.now(),
            commit=commit,
            dirty=dirty,
            base=recipe.base,
            options=options,
        )
        return PushDone(locked=locked, steps=steps, pushed=pushed, lock_written=keep(self.images, locked))

    def _both_there(self, recipe: Recipe) -> tuple[str | None, str | None]:
        """Digests of code and deps. Where the registry does not tell and no engine answers either, both are told, the
        engine first.
        """
        try:
            return self._there(recipe, recipe.code), self._deps_there(recipe)
        except (Unreachable, Unknown) as failed:
            try:
                self.docker()
            except EnvironmentMissing as missing:
                raise missing.beside(failed) from None
            raise

    def _try_push(self, repository: str) -> None:
        """Before minutes of building: what would be refused after them is refused now."""
        try:
            self.registry.try_push(repository)
        except EnvironmentMissing as missing:
            if not (self.creates and missing.problem_id == "repository-missing"):
                raise

    def _deps_there(self, recipe: Recipe) -> str | None:
        """As the lock has them, wherever their tag may lead by now; else by their tag."""
        locked = locked_images(self.images, recipe.image).get(recipe.repository)
        if locked and locked.deps == recipe.deps.tag and locked.deps_digest:
            found = self._there(recipe, recipe.deps, name=f"@{locked.deps_digest}")
            if found:
                return found
        return self._there(recipe, recipe.deps)

    def _there(self, recipe: Recipe, step: BuildStep, *, name: str = "") -> str | None:
        """Digest of the step's image in the registry; None where there is none. Raises Refused for another image."""
        ref = f"{recipe.repository}{name or f':{step.tag}'}"
        found = self.registry.image(ref)
        if found and (why := differs(step, found.labels)):
            raise Refused(
                f"{ref} in the registry is another image ({found.digest}): {why}.",
                fix="Find out who pushed it. Remove that tag from the registry, or give another --registry; xsft "
                "overwrites and records no image that is not its own.",
                id="image-foreign",
            )
        return found.digest if found else None

    def _made(self, recipe: Recipe, *, deps: str | None) -> tuple[StepDone, ...]:
        """Before the repository is looked at or made: a build that fails leaves nothing there."""
        docker = self.docker()
        if self._held(docker, recipe, recipe.code):
            steps = self._skipped(recipe, "held")
        else:
            steps = (self._deps(docker, recipe, there=lambda: deps), self._step(docker, recipe, recipe.code))
        self.ready()
        return steps

    def _sent(self, recipe: Recipe, *, deps: str | None) -> tuple[str, str | None]:
        """Digests of code and deps. The deps go first: another machine then builds on them instead of building them."""
        docker = self.docker()
        if deps is None and self._held(docker, recipe, recipe.deps):
            deps = self._push(docker, recipe, recipe.deps).digest
        return self._push(docker, recipe, recipe.code).digest, deps

    def _push(self, docker: Docker, recipe: Recipe, step: BuildStep) -> PushedImage:
        self.progress(f"pushing {recipe.repository}:{step.tag}")
        image = f"{local_name(recipe.image)}:{step.tag}"
        return docker.push(image, repository=recipe.repository, tag=step.tag, on_event=self.on_event)

    def _confirm(self, recipe: Recipe, digest: str) -> None:
        """A last question, by the digest itself: what the lock names can be pulled, and is ours."""
        found = self._there(recipe, recipe.code, name=f"@{digest}")
        if found != digest:
            said = f"has {found} under it" if found else "does not have it"
            raise Unknown(
                f"{recipe.repository}@{digest} was pushed, and the registry {said}: nothing is recorded.",
                fix="Push again; if it stays so, ask whoever runs the registry.",
                id="push-unconfirmed",
            )

    def _deps(self, docker: Docker, recipe: Recipe, *, there: Callable[[], str | None]) -> StepDone:
        """Here, else pulled by the digest that the registry has, else built."""
        step = recipe.deps
        if self._held(docker, recipe, step):
            return StepDone(name="deps", tag=step.tag, outcome="held")
        digest = there() if recipe.repository != local_name(recipe.image) else None
        if digest is None:
            return self._step(docker, recipe, step)
        ref = f"{recipe.repository}@{digest}"
        self.progress(f"pulling {step.tag}: {ref}")
        started = self.monotonic()
        docker.pull(ref, on_event=self.on_event)
        docker.tag(ref, repository=local_name(recipe.image), tag=step.tag)
        return StepDone(name="deps", tag=step.tag, outcome="pulled", seconds=self.monotonic() - started)

    def _step(self, docker: Docker, recipe: Recipe, step: BuildStep) -> StepDone:
        self.progress(f"building {step.tag}")
        started = self.monotonic()
        docker.build(step, name=f"{local_name(recipe.image)}:{step.tag}", on_event=self.on_event)
        return StepDone(name=step.name, tag=step.tag, outcome="built", seconds=self.monotonic() - started)

    def _held(self, docker: Docker, recipe: Recipe, step: BuildStep) -> bool:
        """Whether the engine has the image: not another one under its tag."""
        ref = f"{local_name(recipe.image)}:{step.tag}"
        labels = docker.labels(ref)
        why = differs(step, labels) if labels is not None else ""
        if why:
            self.progress(f"{ref} in the engine is another image: {why}; it is made anew")
        return labels is not None and not why

    def _leniently(self, ask: Callable[[], str | None]) -> str | None:
        """None also where the registry does not tell: making it again is slow, and right."""
        try:
            return ask()
        except XsftError as failed:
            self.progress(f"{failed.message} (going on without it)")
            return None

    def _skipped(self, recipe: Recipe, outcome: Outcome) -> tuple[StepDone, ...]:
        deps = StepDone(name="deps", tag=recipe.deps.tag, outcome="not-needed")
        return (deps, StepDone(name="code", tag=recipe.code.tag, outcome=outcome))

"""Builds and pushes an image once: what exists here or in the registry is not built again, and the lock gets a digest
only after the registry has proven it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field

from xsft.base.errors import EnvironmentMissing, Refused, RepositoryMissing, Unknown, Unreachable, XsftError
from xsft.effects.images.docker_client import EngineImage
from xsft.effects.images.lock import keep_lock, locked_images
from xsft.effects.images.registry_client import RegistryImage
from xsft.image.model import Base, BuildOptions, BuildStep, LockedImage, Recipe
from xsft.image.progress import BuildEvent
from xsft.image.recipe import EVALUATE_ARG, differs, local_name
from xsft.machine import clock

BuildOutcome = Literal["held", "in-registry", "pulled", "built", "not-needed"]


class Docker(Protocol):
    """The functions of a Docker engine that images need."""

    def labels(self, ref: str) -> Mapping[str, str] | None:
        """Return the labels of an image in the engine; None if it has none of that name."""
        ...

    def images(self, image: str) -> Sequence[EngineImage]:
        """Return the images that xsft built from this folder of images/, newest first."""
        ...

    def base(self, ref: str) -> Base | None:
        """Return what the engine knows of a base image; None if it has none of that name."""
        ...

    def build(self, step: BuildStep, *, name: str, on_event: Callable[[BuildEvent], None]) -> None: ...

    def pull(self, ref: str, *, on_event: Callable[[BuildEvent], None]) -> None: ...

    def tag(self, ref: str, *, repository: str, tag: str) -> None: ...

    def push(self, image: str, *, repository: str, tag: str, on_event: Callable[[BuildEvent], None]) -> str:
        """Return the digest of the manifest that the registry has now."""
        ...


class Registry(Protocol):
    """The functions of a registry that images need. The first two prove the bytes by their digest, and return None if
    nothing is found.
    """

    def manifest_digest(self, ref: str) -> str | None: ...

    def image(self, ref: str) -> RegistryImage | None: ...

    def try_push(self, repository: str) -> None:
        """Raise as a push would: no login, no permission, no such repository."""
        ...


class ImageStep(Struct, frozen=True, kw_only=True):
    """The outcome for one of the two images."""

    name: Literal["deps", "code"]
    tag: str
    outcome: BuildOutcome
    seconds: float = 0.0


class PushDone(Struct, frozen=True, kw_only=True):
    """A pushed image, as it is in the lock."""

    locked: LockedImage
    steps: tuple[ImageStep, ...]
    pushed: bool
    """False: the registry had it already."""


class ImageBuilder(Struct, frozen=True, kw_only=True):
    """Builds and pushes images. The engine is connected only if something must be built or read there."""

    images: Path
    """The folder images/."""
    docker: Callable[[], Docker]
    """Return the engine. Raises EnvironmentMissing if there is none."""
    registry: Registry
    progress: Callable[[str], None] = lambda _line: None
    on_event: Callable[[BuildEvent], None] = lambda _event: None
    ready: Callable[[], None] = lambda: None
    """Called before the first push: ensures that the repository exists."""
    creates: bool = False
    """Whether `ready` creates a missing repository."""
    now: Callable[[], str] = clock.now
    monotonic: Callable[[], float] = field(default=clock.monotonic)

    def build(self, recipe: Recipe, *, remote: bool) -> tuple[ImageStep, ...]:
        """Build deps and code, each only if it is missing. `remote`: what the registry has is not needed in the engine.

        Raises as the engine does. A registry that does not answer, or has another image, does not prevent building.
        """
        docker = self.docker()
        if self._engine_has(docker, recipe, recipe.code):
            return self._skipped_steps(recipe, "held")
        if remote and self._ask_leniently(lambda: self._digest_in_registry(recipe, recipe.code)):
            return self._skipped_steps(recipe, "in-registry")
        deps = self._deps(docker, recipe, there=lambda: self._ask_leniently(lambda: self._deps_there(recipe)))
        return (deps, self._step(docker, recipe, recipe.code))

    def push(self, recipe: Recipe, *, options: BuildOptions | None, commit: str | None, dirty: bool | None) -> PushDone:
        """Ensure that the registry has the image, and write its digest into the lock.

        Raises as `build` and the engine's push do, Unreachable if the registry does not answer, Refused if it has
        another image under one of the two tags, Unknown if it does not confirm the digest: nothing is recorded then.
        """
        self.progress(f"asking {recipe.repository} for {recipe.code.tag}")
        code, deps = self._both_there(recipe)
        pushed = code is None
        if pushed:
            self._try_push(recipe.repository)
        steps = self._build_images(recipe, deps=deps) if pushed else self._skipped_steps(recipe, "in-registry")
        if code is None:
            code, deps = self._push_images(recipe, deps=deps)
        self._confirm(recipe, code)
        locked = LockedImage(
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
            evaluate=recipe.code.args.get(EVALUATE_ARG),
            options=options,
        )
        keep_lock(self.images, locked)
        return PushDone(locked=locked, steps=steps, pushed=pushed)

    def _both_there(self, recipe: Recipe) -> tuple[str | None, str | None]:
        """Return the digests of code and deps in the registry. If neither the registry nor an engine answers, both
        errors are reported, the engine's first.
        """
        try:
            return self._digest_in_registry(recipe, recipe.code), self._deps_there(recipe)
        except (Unreachable, Unknown) as failed:
            try:
                self.docker()
            except EnvironmentMissing as missing:
                raise missing.with_problems_of(failed) from None
            raise

    def _try_push(self, repository: str) -> None:
        """Check the right to push. What would be refused after minutes of building is refused now."""
        try:
            self.registry.try_push(repository)
        except RepositoryMissing:
            if not self.creates:
                raise

    def _deps_there(self, recipe: Recipe) -> str | None:
        """Return the digest of the deps that the lock has, even if their tag has moved; else the digest of the tag."""
        locked = locked_images(self.images, recipe.image).get(recipe.repository)
        if locked and locked.deps == recipe.deps.tag and locked.deps_digest:
            found = self._digest_in_registry(recipe, recipe.deps, name=f"@{locked.deps_digest}")
            if found:
                return found
        return self._digest_in_registry(recipe, recipe.deps)

    def _digest_in_registry(self, recipe: Recipe, step: BuildStep, *, name: str = "") -> str | None:
        """Return the digest of the step's image in the registry, or None. Raises Refused for another image."""
        ref = f"{recipe.repository}{name or f':{step.tag}'}"
        found = self.registry.image(ref)
        if found and (why := differs(step, found.labels)):
            raise Refused(
                f"{ref} in the registry is another image ({found.digest}): {why}.",
                fix="Find out who pushed it. Remove that tag from the registry, or use another --registry; xsft "
                "does not overwrite or record images that it did not push.",
                id="image-foreign",
            )
        return found.digest if found else None

    def _build_images(self, recipe: Recipe, *, deps: str | None) -> tuple[ImageStep, ...]:
        """Build both images before the repository is checked or created: a failed build leaves nothing there."""
        docker = self.docker()
        if self._engine_has(docker, recipe, recipe.code):
            steps = self._skipped_steps(recipe, "held")
        else:
            steps = (self._deps(docker, recipe, there=lambda: deps), self._step(docker, recipe, recipe.code))
        self.ready()
        return steps

    def _push_images(self, recipe: Recipe, *, deps: str | None) -> tuple[str, str | None]:
        """Push both images and return the digests of code and deps. The deps are pushed first: another machine can then
        build on them instead of building them.
        """
        docker = self.docker()
        if deps is None and self._engine_has(docker, recipe, recipe.deps):
            deps = self._push(docker, recipe, recipe.deps)
        return self._push(docker, recipe, recipe.code), deps

    def _push(self, docker: Docker, recipe: Recipe, step: BuildStep) -> str:
        self.progress(f"pushing {recipe.repository}:{step.tag}")
        image = f"{local_name(recipe.image)}:{step.tag}"
        return docker.push(image, repository=recipe.repository, tag=step.tag, on_event=self.on_event)

    def _confirm(self, recipe: Recipe, digest: str) -> None:
        """Check, by the digest itself, that what the lock names can be pulled and was built by xsft."""
        found = self._digest_in_registry(recipe, recipe.code, name=f"@{digest}")
        if found != digest:
            said = f"has {found} at this tag" if found else "does not have it"
            raise Unknown(
                f"{recipe.repository}@{digest} was pushed, and the registry {said}: nothing was recorded.",
                fix="Push again; if it fails again, ask the registry's administrator.",
                id="push-unconfirmed",
            )

    def _deps(self, docker: Docker, recipe: Recipe, *, there: Callable[[], str | None]) -> ImageStep:
        """Return the deps' image: from the engine, else pulled by the registry's digest, else built."""
        step = recipe.deps
        if self._engine_has(docker, recipe, step):
            return ImageStep(name="deps", tag=step.tag, outcome="held")
        digest = there() if recipe.repository != local_name(recipe.image) else None
        if digest is None:
            return self._step(docker, recipe, step)
        ref = f"{recipe.repository}@{digest}"
        self.progress(f"pulling {step.tag}: {ref}")
        started = self.monotonic()
        docker.pull(ref, on_event=self.on_event)
        docker.tag(ref, repository=local_name(recipe.image), tag=step.tag)
        return ImageStep(name="deps", tag=step.tag, outcome="pulled", seconds=self.monotonic() - started)

    def _step(self, docker: Docker, recipe: Recipe, step: BuildStep) -> ImageStep:
        self.progress(f"building {step.tag}")
        started = self.monotonic()
        docker.build(step, name=f"{local_name(recipe.image)}:{step.tag}", on_event=self.on_event)
        return ImageStep(name=step.name, tag=step.tag, outcome="built", seconds=self.monotonic() - started)

    def _engine_has(self, docker: Docker, recipe: Recipe, step: BuildStep) -> bool:
        """Return whether the engine has the image, and not another one under its tag."""
        ref = f"{local_name(recipe.image)}:{step.tag}"
        labels = docker.labels(ref)
        why = differs(step, labels) if labels is not None else ""
        if why:
            self.progress(f"{ref} in the engine is another image: {why}; it is built again")
        return labels is not None and not why

    def _ask_leniently(self, ask: Callable[[], str | None]) -> str | None:
        """Return the answer, or None, also if the registry does not answer: building again is slow, but correct."""
        try:
            return ask()
        except XsftError as failed:
            self.progress(f"{failed.message} (continuing without it)")
            return None

    def _skipped_steps(self, recipe: Recipe, outcome: BuildOutcome) -> tuple[ImageStep, ...]:
        deps = ImageStep(name="deps", tag=recipe.deps.tag, outcome="not-needed")
        return (deps, ImageStep(name="code", tag=recipe.code.tag, outcome=outcome))

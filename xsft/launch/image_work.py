"""The actions of `xsft image`: from options to a recipe, and from the recipe to the existing images; each action
returns its document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import asdict

from xsft.base.errors import Refused, UsageError, XsftError
from xsft.catalog import releases
from xsft.effects.images.base import resolve_base
from xsft.effects.images.build import Docker, ImageBuilder, ImageStep, PushDone
from xsft.effects.images.engine import real_docker
from xsft.effects.images.listing import ImageTag, in_engine, in_registry
from xsft.effects.images.lock import keep_base, lock_file, locked_images, pinned_base
from xsft.effects.images.material import MaterialReaders, PlannedImage, find_images, plan_image, within_project
from xsft.effects.images.registry_client import Registries
from xsft.effects.images.repository import ensure_repository, registry_of
from xsft.image.context import largest, size_of
from xsft.image.model import Base, BuildOptions, BuildStep, LockedImage
from xsft.image.progress import BuildEvent
from xsft.image.recipe import repository_of
from xsft.machine.paths import own_cache
from xsft.machine.process import own_environment


class ImageDisplay(Protocol):
    """What shows the progress of a build or a push."""

    def say(self, line: str) -> None: ...

    def event(self, event: BuildEvent) -> None: ...


class ImageRequest(Struct, frozen=True, kw_only=True):
    """The image that is wanted, as the options of `xsft image` name it."""

    image: str
    """Folder below images/."""
    registry: str | None = None
    place: str | None = None
    """Place whose registry is used without `registry`."""
    maxtext: str | None = None
    maxtext_source: str = "pypi"
    tunix_source: str = "pypi"
    base: str | None = None
    update_base: bool = False
    """Whether the tag of the base is resolved again."""
    needs_base: bool
    """Whether a base whose digest is unknown is an error."""
    vllm: str | None = None
    code: Sequence[str] = ()
    args: Sequence[str] = ()
    """Build arguments, NAME=VALUE."""
    pip_config: str | None = None
    accept: Sequence[str] = ()
    """Ids of accepted problems."""
    create: bool = False
    """Whether a missing repository is created."""


@dataclass(frozen=True, kw_only=True)
class ImageClients:
    """The connections to engine and registries; each is made when it is first needed."""

    env: dict[str, str] = field(repr=False)

    @cached_property
    def registries(self) -> Registries:
        return Registries(env=self.env)

    @cached_property
    def connected(self) -> Docker:
        return real_docker(registries=self.registries, env=self.env)

    def docker(self) -> Docker:
        """Return the engine's client. Raises EnvironmentMissing if no engine answers."""
        return self.connected


class ImageCall(Struct, frozen=True, kw_only=True):
    """One call of `xsft image`."""

    images: Path
    planned: PlannedImage
    tools: ImageClients
    display: ImageDisplay
    create: bool

    def build(self) -> dict[str, Any]:
        steps = self._maker().build(self.planned.recipe, remote=repository_of(self.planned.options) is not None)
        self._pin()
        return self._document("build", steps=steps)

    def push(self) -> dict[str, Any]:
        planned = self.planned
        if repository_of(planned.options) is None:
            raise UsageError(
                "No registry given.",
                fix="Give --registry us-docker.pkg.dev/my-project/xsft (make: REGISTRY=), or --place (PLACE=).",
            )
        material = planned.material
        done = self._maker().push(planned.recipe, options=planned.kept, commit=material.revision, dirty=material.dirty)
        self._pin()
        return self._document("push", steps=done.steps, done=done)

    def show(self) -> dict[str, Any]:
        return self._document("show")

    def list(self) -> dict[str, Any]:
        recipe = self.planned.recipe
        found = [*in_engine(self.tools.docker, recipe.image, say=self.display.say)]
        if repository_of(self.planned.options):
            found += in_registry(self.tools.registries, recipe.repository, env=self.tools.env, say=self.display.say)
        return self._document("list", listed=found)

    def _pin(self) -> None:
        """Pin the base's digest in the lock, at the first build that knows it."""
        base, image = self.planned.material.base, self.planned.recipe.image
        if base and base.digest and keep_base(self.images, image, base):
            self.display.say(f"{lock_file(self.images, image)} now pins the base {base.pinned}; commit it")

    def _maker(self) -> ImageBuilder:
        registry = self.planned.options.registry
        return ImageBuilder(
            images=self.images,
            docker=self.tools.docker,
            registry=self.tools.registries,
            progress=self.display.say,
            on_event=self.display.event,
            creates=self.create,
            ready=lambda: ensure_repository(
                str(registry), env=self.tools.env, create=self.create, progress=self.display.say
            ),
        )

    def _document(
        self,
        action: str,
        *,
        steps: Sequence[ImageStep] = (),
        done: PushDone | None = None,
        listed: Sequence[ImageTag] | None = None,
    ) -> dict[str, Any]:
        recipe, lock = self.planned.recipe, self._locked_image()
        outcome = {step.name: step for step in steps}
        return {
            "action": action,
            "image": recipe.image,
            "repository": repository_of(self.planned.options),
            "maxtext": recipe.maxtext,
            "maxtext_source": self.planned.material.maxtext_label,
            "base": recipe.base,
            "deps": _part_document(recipe.deps, outcome.get("deps")),
            "code": _part_document(recipe.code, outcome.get("code")),
            "ref": done.locked.ref if done else None,
            "pushed": done.pushed if done else None,
            "lock": self._lock(lock) if lock else None,
            "images": None if listed is None else [_image_row(one, self.planned, lock) for one in listed],
        }

    def _locked_image(self) -> LockedImage | None:
        return locked_images(self.images, self.planned.recipe.image).get(self.planned.recipe.repository)

    def _lock(self, locked: LockedImage) -> dict[str, Any]:
        return {
            "file": str(lock_file(self.images, locked.image)),
            "digest": locked.digest,
            "code": locked.code,
            "maxtext": locked.maxtext,
            "pushed_at": locked.pushed_at,
            "commit": locked.commit,
            "dirty": locked.dirty,
            "current": locked.code == self.planned.recipe.code.tag,
        }


def work_for(request: ImageRequest, *, display: ImageDisplay) -> ImageCall:
    """Return the work for the request. Raises UsageError and SpecError if the request or files are wrong."""
    cwd = Path.cwd()
    images = find_images(cwd, request.image)
    tools = ImageClients(env=own_environment())
    options = _build_options(request, project=images.parent, cwd=cwd)
    base = _base(request, images=images, tools=tools, display=display)
    gathering = MaterialReaders(
        images=images, env=tools.env, cache=own_cache(), base=base, accept=request.accept, progress=display.say
    )
    planned = plan_image(options, gathering)
    return ImageCall(images=images, planned=planned, tools=tools, display=display, create=request.create)


def _base(
    request: ImageRequest, *, images: Path, tools: ImageClients, display: ImageDisplay
) -> Callable[[str | None], Base | None]:
    """Return a function that finds the base's digest. A request that needs no base works without an answer, and says
    that the tags may differ then."""
    pinned, held = pinned_base(images, request.image), locked_images(images, request.image).values()

    def base(ref: str | None) -> Base | None:
        if ref and not pinned and "@" not in ref:
            display.say(f"{lock_file(images, request.image)} pins no digest of the base {ref}")
        try:
            return resolve_base(
                ref,
                pinned=pinned,
                held=held,
                docker=tools.docker,
                registry=tools.registries,
                again=request.update_base,
            )
        except XsftError as failed:
            if ref is None or isinstance(failed, Refused) or request.needs_base:
                raise
            reasons = " ".join(f"{problem.message.rstrip('.')}." for problem in failed.problems)
            display.say(f"{reasons} The digest of {ref} is unknown, so the tags below may change.")
            return Base(ref=ref)

    return base


def _build_options(request: ImageRequest, *, project: Path, cwd: Path) -> BuildOptions:
    return BuildOptions(
        image=request.image,
        registry=request.registry or registry_of(request.place, start=project),
        maxtext=request.maxtext or releases.DEFAULT,
        maxtext_source=_source_option(request.maxtext_source, project=project, cwd=cwd),
        tunix_source=_source_option(request.tunix_source, project=project, cwd=cwd),
        base=request.base or None,
        vllm=request.vllm or None,
        code=tuple(within_project(folder, project=project, cwd=cwd) for folder in request.code),
        args=dict(_parse_pairs(request.args)),
        pip_config=str(_existing_file(request.pip_config)) if request.pip_config else None,
    )


def _source_option(text: str, *, project: Path, cwd: Path) -> str:
    return text if text == "pypi" or text.startswith("git+") else within_project(text, project=project, cwd=cwd)


def _parse_pairs(given: Iterable[str]) -> Iterable[tuple[str, str]]:
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--arg {text}: no `=` in it.", fix="Write --arg NAME=VALUE.")
        yield name, value


def _existing_file(text: str) -> Path:
    path = Path(text).expanduser().absolute()
    if not path.is_file():
        raise UsageError(f"--pip-config {text}: no such file.", fix="Give a file in pip.conf format.")
    return path


def _part_document(step: BuildStep, done: ImageStep | None) -> dict[str, Any]:
    return {
        "tag": step.tag,
        "outcome": done.outcome if done else None,
        "seconds": round(done.seconds, 3) if done and done.seconds else None,
        "files": sum(f.kind == "file" for f in step.files),
        "bytes": size_of(step.files),
        "largest": [{"path": f.path, "size": f.size} for f in largest(step.files)],
        "args": dict(step.args),
    }


def _image_row(one: ImageTag, planned: PlannedImage, lock: LockedImage | None) -> dict[str, Any]:
    current = one.tag in {planned.recipe.deps.tag, planned.recipe.code.tag}
    locked = lock is not None and one.digest == lock.digest
    return {**asdict(one), "current": current, "locked": locked}

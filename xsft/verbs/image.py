"""`xsft image build|push|show`: make the project's image once, push it, and pin it by digest in its lock."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from xsft.base.amounts import size_text
from xsft.base.errors import UsageError
from xsft.base.names import FIX, is_placeholder, placeholder_in
from xsft.cluster.places import load_places
from xsft.image.context import ContextFile, largest, size_of
from xsft.image.folders import find_images
from xsft.image.lock import LockedImage
from xsft.image.lock_file import lock_file, read_lock_file
from xsft.image.options import BuildOptions
from xsft.image.push import ImageDone, ImageMaker, ImageStep, build_image, push_image
from xsft.image.recipe import Recipe
from xsft.image.work import ImageRequest, PlannedImage, plan_image, within_project
from xsft.machine.process import own_environment
from xsft.verbs.document import (
    Document,
    VerbDocument,
    document_of,
    print_to_stderr,
    problem_documents,
    report_document,
    request_of,
)

OUTCOMES = {
    "held": "here already",
    "in-registry": "already in the registry",
    "pulled": "pulled",
    "built": "built",
    "not-needed": "not needed",
}


class ContextEntry(Document, frozen=True, kw_only=True):
    """A file that is put into an image."""

    path: str
    size: int
    """Bytes."""


class ImagePart(Document, frozen=True, kw_only=True):
    """One of the two images: dependencies, or code."""

    tag: str
    """`deps-<hash>` or `code-<hash>`: the same content has the same tag."""
    outcome: Literal["held", "in-registry", "pulled", "built", "not-needed"] | None
    """What `build` and `push` did; null for `show`. `held`: the engine had it; `in-registry`: the registry
    had it; `not-needed`: no missing image is built on it."""
    seconds: float | None
    """Seconds of building, pulling or adding."""
    files: int
    bytes: int
    """Bytes of its files; of a fork, only those that differ from the installed ones are sent."""
    largest: tuple[ContextEntry, ...]
    args: dict[str, str]
    """Build arguments; the code has none."""


class ImageLock(Document, frozen=True, kw_only=True):
    """The entry of images/NAME.lock.json for the repository."""

    file: str
    digest: str
    code: str
    """Tag of the code image."""
    maxtext: str
    pushed_at: str
    """Time of the push; UTC, ISO 8601."""
    commit: str | None
    dirty: bool | None
    current: bool
    """Whether the current files would give the same image."""


class ImageDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.image/1"):
    """`xsft image ACTION --json`."""

    action: Literal["build", "push", "show"]
    image: str
    repository: str | None
    """Repository to which the image is pushed; null if no registry is given."""
    maxtext: str
    maxtext_source: str
    """`pypi`, `git <commit>` or `tree <commit>[-dirty]`."""
    base: str
    """`ref@sha256:…`; `ref#sha256:…` for an image that only this engine has; empty without a base image."""
    deps: ImagePart
    code: ImagePart
    ref: str | None
    """`repository@sha256:…` after a push, for `image.ref` of a workload; else null."""
    pushed: bool | None
    """Whether anything was sent; null except for `push`."""
    lock: ImageLock | None
    """Entry of the lock file after the action; null if there is none for the repository."""
    sent_bytes: int | None
    """Bytes that `push` sent of the code's layers and documents; 0 if there was nothing to send. Else null."""
    images: None = None
    """Always null; earlier versions listed images here."""


def run(args: argparse.Namespace) -> int:
    if args.action == "list":
        raise UsageError(
            "`xsft image list` is withdrawn.",
            fix=f"`xsft image show` shows the image of the files here and of the lock; `docker images` and "
            f"`gcloud artifacts docker images list` list all of {args.image}.",
        )
    cwd = Path.cwd()
    images = find_images(cwd, args.image)
    maker = ImageMaker(
        images=images,
        env=own_environment(),
        pip_config=_existing_file(args.pip_config),
        say=lambda line: print_to_stderr(f"xsft: {line}"),
        pass_on=print_to_stderr,
        accept=args.accept,
        creates=args.create,
    )
    planned = plan_image(_request(args, project=images.parent, cwd=cwd), maker)
    done = _act(args.action, planned.recipe, maker)
    document = image_document(args.action, planned, done, images=images)
    return report_document(document, image_text, as_json=args.json)


def registry_of(place: str | None, *, start: Path) -> str | None:
    """Return the place's registry; without a place the only one in places.yaml, None if there are none or several.

    Raises UsageError for an unknown place, or one with no registry or a placeholder; SpecError for an invalid file.
    """
    places, file = load_places(start)
    if place is None:
        named = {defined.registry for defined in places.values() if defined.registry}
        registries = {registry for registry in named if not placeholder_in(registry)}
        return registries.pop() if len(registries) == 1 else None
    if place not in places:
        names = f"Known: {', '.join(sorted(places)) or 'none'} ({file or 'no places.yaml'})."
        raise UsageError(f"Place {place} was not found. {names}", fix="Correct --place, or give --registry.")
    registry = places[place].registry
    if registry is None:
        fix = f"Add registry: us-docker.pkg.dev/my-project/xsft to {place} in {file}, or give --registry."
        raise UsageError(f"The place {place} has no registry.", fix=fix)
    if name := placeholder_in(registry):
        raise UsageError(is_placeholder(name), fix=FIX, id="place-placeholder")
    return registry


def _act(action: str, recipe: Recipe, maker: ImageMaker) -> ImageDone | None:
    match action:
        case "build":
            return build_image(recipe, maker)
        case "push":
            if recipe.repository is None:
                raise UsageError(
                    "No registry given.",
                    fix="Give --registry us-docker.pkg.dev/my-project/xsft (make: REGISTRY=), or --place (PLACE=).",
                )
            return push_image(recipe, maker)
        case _:
            return None


def _request(args: argparse.Namespace, *, project: Path, cwd: Path) -> ImageRequest:
    build_arguments: dict[str, str] = {}
    for text in args.arg:
        name, equals, argument = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--arg {text}: no `=` in it.", fix="Write --arg NAME=VALUE.")
        build_arguments[name] = argument
    options = request_of(
        args,
        BuildOptions,
        maxtext_source=_source_option(args.maxtext_source, project=project, cwd=cwd),
        tunix_source=_source_option(args.tunix_source, project=project, cwd=cwd),
        code=tuple(within_project(folder, project=project, cwd=cwd) for folder in args.code),
        args=build_arguments,
    )
    return request_of(
        args,
        ImageRequest,
        options=options,
        registry=args.registry or registry_of(args.place, start=project),
        needs_base=args.action != "show",
    )


def _source_option(text: str | None, *, project: Path, cwd: Path) -> str | None:
    if text is None or text == "pypi" or text.startswith("git+"):
        return text
    return within_project(text, project=project, cwd=cwd)


def _existing_file(text: str | None) -> str | None:
    if text is None:
        return None
    path = Path(text).expanduser().absolute()
    if not path.is_file():
        raise UsageError(f"--pip-config {text}: no such file.", fix="Give a file in pip.conf format.")
    return str(path)


def image_document(action: str, planned: PlannedImage, done: ImageDone | None, *, images: Path) -> ImageDocument:
    """Return what was built, pushed or found."""
    recipe = planned.recipe
    locked = read_lock_file(images, recipe.image).images.get(recipe.repository or "")
    document = document_of(
        ImageDocument,
        recipe,
        action=action,
        maxtext=recipe.options.release,
        maxtext_source=planned.maxtext_label,
        deps=_part(recipe.deps.tag, recipe.deps.files, done.deps if done else None, args=recipe.deps.args),
        code=_part(recipe.code.tag, recipe.code.files, done.code if done else None, args={}),
        ref=None,
        pushed=None,
        sent_bytes=None,
        lock=_lock(locked, lock_file(images, recipe.image), tag=recipe.code.tag) if locked else None,
        problems=problem_documents(planned.problems),
    )
    if done is None or done.locked is None:
        return document
    pushed = done.code.outcome == "built"
    return replace(document, ref=done.locked.ref, pushed=pushed, sent_bytes=done.sent_bytes)


def _part(tag: str, files: tuple[ContextFile, ...], step: ImageStep | None, *, args: Mapping[str, str]) -> ImagePart:
    return ImagePart(
        tag=tag,
        outcome=step.outcome if step else None,
        seconds=round(step.seconds, 3) if step and step.seconds else None,
        files=sum(file.kind == "file" for file in files),
        bytes=size_of(files),
        largest=tuple(document_of(ContextEntry, file) for file in largest(files)),
        args=dict(args),
    )


def _lock(locked: LockedImage, file: Path, *, tag: str) -> ImageLock:
    return document_of(ImageLock, locked, file=str(file), current=locked.code == tag)


def image_text(document: ImageDocument) -> Iterator[str]:
    """Yield the lines about what was built, pushed or found."""
    if document.action == "show":
        yield from _shown(document)
        return
    for part in (document.deps, document.code):
        seconds = f", {part.seconds:.1f} s" if part.seconds else ""
        yield f"{part.tag}  {OUTCOMES[part.outcome or 'held']}{seconds}"
    if document.action == "push" and document.lock:
        amount = f"pushed, {document.sent_bytes:,} bytes" if document.pushed else "nothing to push"
        yield f"{document.ref}  {amount}"
        yield f"lock: {document.lock.file}"
        yield f"in a workload: image: {{name: {document.image}}}"


def _shown(document: ImageDocument) -> Iterator[str]:
    yield f"image       {document.image}"
    yield f"repository  {document.repository or 'unknown: no --registry or --place given'}"
    yield f"MaxText     {document.maxtext} ({document.maxtext_source})"
    yield f"base        {document.base or 'none'}"
    for name, part in (("deps", document.deps), ("code", document.code)):
        yield f"{name}        {part.tag}: {part.files} files, {size_text(part.bytes)}"
        yield from (f"            {size_text(entry.size):>10}  {entry.path}" for entry in part.largest)
        yield from (f"            {key}={argument}" for key, argument in part.args.items())
    yield _lock_line(document)


def _lock_line(document: ImageDocument) -> str:
    lock = document.lock
    if lock is None:
        return f"lock        no image for {document.repository or 'no registry'}: make image push"
    state = f"differs from the files here ({lock.code}): make image push"
    if lock.current:
        state = "matches the files here"
    return f"lock        {lock.digest}, pushed {lock.pushed_at}: {state}"

"""From the options of a call to the recipe of an image: the options of the last push, the base image, the files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import EnvironmentMissing, Refused, XsftError, refuse_errors
from xsft.base.problems import Problem
from xsft.image.artifact_names import repository_of
from xsft.image.code_layer import digest_of
from xsft.image.context import accept_problems, context_problems
from xsft.image.folders import locked_versions, read_arguments, read_code, read_context, scan_for_secrets
from xsft.image.lock import LockedImage, last_options
from xsft.image.lock_file import keep_base, lock_file, locked_images, pinned_base
from xsft.image.options import (
    BuildOptions,
    GivenOptions,
    argument_problems,
    combine_options,
    option_problems,
    option_words,
)
from xsft.image.push import ImageMaker
from xsft.image.recipe import Base, Recipe, make_recipe, parse_base, repository_in
from xsft.image.reference import parse_reference
from xsft.image.sources import SourceTree, source_of
from xsft.machine.checkout import checkout
from xsft.machine.paths import own_cache


class ImageRequest(Struct, frozen=True, kw_only=True):
    """The image that is wanted, as the options of `xsft image` name it."""

    image: str
    """Folder below images/."""
    given: GivenOptions
    """Options that the call gives; the others are those of the last push."""
    forgets: bool = False
    """Whether the options of the last push are not used."""
    registry: str | None = None
    updates_base: bool = False
    """Whether the base's tag is resolved again."""
    needs_base: bool = True
    """Whether a base whose digest is unknown is an error."""
    pip_config: str | None = None
    """Absolute path."""


class PlannedImage(Struct, frozen=True, kw_only=True):
    """An image that can be made."""

    recipe: Recipe
    options: BuildOptions
    remembered: BuildOptions | None
    """The options as the lock stores them; None if a folder outside the project is among them."""
    maxtext_label: str
    """`pypi`, `git <commit>` or `tree <commit>[-dirty]`."""
    commit: str | None
    """Full commit of the user's repository."""
    dirty: bool | None
    problems: tuple[Problem, ...]
    """Warnings."""


def plan_image(request: ImageRequest, maker: ImageMaker) -> PlannedImage:
    """Return the planned image. Raises SpecError with every problem of one kind, UsageError for what is missing, and as
    the readers do.
    """
    project = maker.images.parent
    options = _choose_options(request, maker)
    problems = refuse_errors(option_problems(options))
    if options.registry:
        repository_of(options.registry)  # the names of Artifact Registry, before anything is built
    folder = maker.images / options.image
    context = scan_for_secrets(read_context(folder))
    declared = read_arguments(folder)
    maxtext = _source(options.maxtext_source, maker)
    tunix = _source(options.tunix_source, maker)
    code = read_code(
        code=tuple(project / path for path in options.code),
        maxtext=maxtext.folder if maxtext else None,
        tunix=tunix.folder if tunix else None,
    )
    # of a fork only the files that enter a layer are searched for secrets, once the installed ones are known
    user_files = scan_for_secrets(tuple(file for file in code if file.path.startswith("code/")))
    for files in (context, (*user_files, *(file for file in code if not file.path.startswith("code/")))):
        problems += refuse_errors(accept_problems(context_problems(files), maker.accept))
    problems += refuse_errors(argument_problems(options, declared))
    state = checkout(project)
    recipe = make_recipe(
        options,
        context=context,
        declared=declared,
        packages=locked_versions(folder),
        code=code,
        base=_choose_base(request, options, declared, maker),
    )
    return PlannedImage(
        recipe=recipe,
        options=options,
        remembered=_shareable(options),
        maxtext_label=maxtext.label if maxtext else "pypi",
        commit=state.commit if state else None,
        dirty=state.dirty if state else None,
        problems=problems,
    )


def pin_base(recipe: Recipe, maker: ImageMaker) -> None:
    """Pin the base's digest in the lock, at the first build that knows it, and say how to pin it in the Dockerfile."""
    base = recipe.base
    if base and base.digest and keep_base(maker.images, recipe.image, base):
        maker.say(f"{lock_file(maker.images, recipe.image)} now pins the base {base.pinned}; commit it")
        maker.say(f"or pin it in images/{recipe.image}/Dockerfile: ARG BASE_IMAGE={base.pinned}")


def within_project(path: str, *, project: Path, cwd: Path) -> str:
    """Return the folder as the lock can store it: relative to the project if it is inside, else absolute."""
    absolute = (cwd / path).resolve()
    root = project.resolve()
    if absolute.is_relative_to(root):
        return absolute.relative_to(root).as_posix()
    return str(absolute)


def _choose_options(request: ImageRequest, maker: ImageMaker) -> BuildOptions:
    """Return the options of the call over those of the last push; each difference is named.

    Raises Refused if the last push had options that the lock cannot name: without them another image would be pushed.
    """
    defaults = BuildOptions(image=request.image)
    repository = repository_in(request.registry, request.image) if request.registry else None
    last = last_options(locked_images(maker.images, request.image), repository)
    if last and last.options is None and not request.forgets and request.given == GivenOptions():
        raise _unrepeatable(last)
    before = replace((last and last.options) or defaults, maxtext=defaults.maxtext)
    options = combine_options(request.given, defaults if request.forgets else before)
    words = option_words(options) or "none"
    if last and options != before:
        maker.say(f"options: {words}; the last push had {option_words(before) or 'none'}")
    elif options != defaults:
        maker.say(f"options: {words}")
    return replace(options, registry=request.registry, pip_config=request.pip_config)


def _unrepeatable(last: LockedImage) -> Refused:
    return Refused(
        f"The options of the last push to {last.repository} cannot be repeated: they name a folder outside the "
        "project, or come from a later xsft.",
        fix="Give the options again, or --forget to use the defaults.",
        id="image-options",
    )


def _source(text: str, maker: ImageMaker) -> SourceTree | None:
    return source_of(text, project=maker.images.parent, env=maker.env, cache=own_cache(), progress=maker.say)


def _shareable(options: BuildOptions) -> BuildOptions | None:
    """Return the options without those that apply only to this call or to this machine."""
    folders = (*options.code, options.maxtext_source, options.tunix_source)
    if any(Path(folder).is_absolute() for folder in folders):
        return None
    return replace(options, registry=None, pip_config=None)


def _choose_base(
    request: ImageRequest, options: BuildOptions, declared: Mapping[str, str | None], maker: ImageMaker
) -> Base | None:
    """Return the base with its digest: from the name itself, the lock, the engine or the registry. None if the
    Dockerfile uses no base.

    Raises Refused, image-base-differs, for a base given in this call that the lock does not pin; EnvironmentMissing if
    neither the engine nor the registry has it; and as they do if they do not answer.
    """
    name = options.base or declared.get("BASE_IMAGE")
    if not name:
        return None
    asked_base = Base(ref=name.partition("@")[0], digest=parse_reference(name).digest)
    pinned = None if request.updates_base else pinned_base(maker.images, options.image)
    if pinned and (asked_base.ref, asked_base.digest or pinned.digest) != (pinned.ref, pinned.digest):
        if request.given.base:
            raise Refused(
                f"The lock pins the base {pinned.pinned}, and {asked_base.pinned} was given.",
                fix="Use the other one with --update-base, and commit the lock; or omit --base.",
                id="image-base-differs",
            )
        if not asked_base.digest:
            maker.say(f"building on {pinned.pinned}, which the lock pins; --update-base uses {asked_base.ref}")
            return pinned
    if asked_base.digest:
        return asked_base
    return pinned or _look_up_base(asked_base.ref, request, maker)


def _look_up_base(ref: str, request: ImageRequest, maker: ImageMaker) -> Base:
    """Return the base from the engine, which is what FROM would use, else from a push that used it, else from the
    registry. If none answers, both errors are reported, the engine's first.
    """
    maker.say(f"{lock_file(maker.images, request.image)} pins no digest of the base {ref}")
    missing: EnvironmentMissing | None = None
    try:
        image = maker.connect(maker.env).image(ref)
    except EnvironmentMissing as failed:  # without an engine the registry may still have the base
        image, missing = None, failed
    if image:
        digest = image.digest_in(parse_reference(ref).name)
        return Base(ref=ref, digest=digest, image_id=None if digest else image.id)
    pushed = _base_of_last_push(ref, request, maker)
    if pushed:
        return pushed
    try:
        return _base_in_registry(ref, maker)
    except XsftError as failed:
        if request.needs_base:
            raise (missing.with_problems_of(failed) if missing else failed) from None
        reasons = [*(missing.problems if missing else ()), *failed.problems]
        words = " ".join(f"{problem.message.rstrip('.')}." for problem in reasons)
        maker.say(f"{words} The digest of {ref} is unknown, so the tags below may change.")
        return Base(ref=ref)


def _base_of_last_push(ref: str, request: ImageRequest, maker: ImageMaker) -> Base | None:
    if request.updates_base:
        return None
    images = locked_images(maker.images, request.image)
    bases = (parse_base(locked.base) for locked in images.values())
    return next((base for base in bases if base and base.ref == ref and base != Base(ref=ref)), None)


def _base_in_registry(ref: str, maker: ImageMaker) -> Base:
    repository = maker.repository(ref, env=maker.env)
    answer = repository.manifest(repository.at.reference)
    if answer is None:
        raise EnvironmentMissing(
            f"The base image {ref} is neither in the engine nor in its registry.",
            fix="Correct --base, or BASE_IMAGE in the Dockerfile.",
            id="image-absent",
        )
    content, _ = answer
    return Base(ref=ref, digest=digest_of(content))

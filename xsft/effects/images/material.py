"""Gathers everything a recipe needs: the image's folder, the user's trees, the base image, the commit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import UsageError, refuse_errors
from xsft.base.problems import Problem
from xsft.effects.images.context import (
    code_part,
    deps_part,
    folder_under_images,
    hash_large_files,
    image_names,
    images_folder,
)
from xsft.effects.images.secret_scan import scan
from xsft.effects.images.source import SourceTree, source_of
from xsft.image.context import accept_size, context_problems
from xsft.image.model import Base, BuildOptions, DockerfilePart, Material, Recipe
from xsft.image.problems import material_problems, option_problems
from xsft.image.recipe import CODE_DOCKERFILE, DEPS_DOCKERFILE, make_recipe
from xsft.machine.checkout import checkout
from xsft.machine.regular import read_text

LOCK = "requirements.txt"
PIN = re.compile(r"^([a-z0-9][-a-z0-9.]*)==([0-9][0-9A-Za-z.]*)", re.MULTILINE)


class PlannedImage(Struct, frozen=True, kw_only=True):
    """An image that can be built; its problems are only warnings."""

    recipe: Recipe
    material: Material
    options: BuildOptions
    """The options as the user chose them."""
    kept: BuildOptions | None
    """The options as the lock stores them; None if a folder outside the project is among them."""
    problems: tuple[Problem, ...]


class MaterialReaders(Struct, frozen=True, kw_only=True):
    """The readers of the planned image's facts."""

    images: Path
    env: Mapping[str, str]
    cache: Path
    base: Callable[[str | None], Base | None]
    """Return the digest of a base reference."""
    accept: Sequence[str] = ()
    progress: Callable[[str], None] = lambda _line: None


def plan_image(options: BuildOptions, by: MaterialReaders) -> PlannedImage:
    """Return the planned image. Raises SpecError with every problem of one kind, UsageError for what is missing, and as
    `by.base` does.
    """
    said = refuse_errors(option_problems(options))
    folder, project = by.images / options.image, by.images.parent
    deps = deps_part(folder)
    maxtext, tunix = (_source_tree(text, by) for text in (options.maxtext_source, options.tunix_source))
    code = code_part(
        folder,
        code=tuple(project / path for path in options.code),
        maxtext=maxtext.folder if maxtext else None,
        tunix=tunix.folder if tunix else None,
    )
    scans = by.cache / "image-scans" / options.image
    found = (scan(deps.files, memory=scans / "deps.json"), scan(code.files, memory=scans / "code.json"))
    said += refuse_errors(accept_size((problem for files in found for problem in context_problems(files)), by.accept))
    said += refuse_errors(material_problems(options, Material(deps=deps, code=code)))
    here = checkout(project)
    material = Material(
        deps=hash_large_files(deps),
        code=hash_large_files(code),
        base=by.base(_base_ref(options, deps)),
        revision=here.commit if here else None,
        dirty=here.dirty if here else None,
        maxtext_label=maxtext.label if maxtext else "pypi",
        packages=_locked_versions(folder / LOCK),
    )
    recipe = make_recipe(options, material)
    return PlannedImage(
        recipe=recipe, material=material, options=options, kept=_shareable_options(options), problems=said
    )


def find_images(start: Path, name: str) -> Path:
    """Return the images/ that has a folder of this name. Raises UsageError with the names that exist."""
    bare, known = PurePath(name).name, image_names(start)
    found = images_folder(start, name) if bare == name else None
    if found is not None and (found / name).is_dir():
        return found
    if bare != name and bare in known:
        raise UsageError(f"{name!r} is a path.", fix=f"Give only the folder's name: --image {bare}.", id="image-name")
    if (empty := folder_under_images(start, bare)) is not None:
        raise UsageError(
            f"{empty} has no {DEPS_DOCKERFILE}.",
            fix=f"An image is a folder with {DEPS_DOCKERFILE} and {CODE_DOCKERFILE}, as images/post_training is.",
            id="image-dockerfile",
        )
    raise UsageError(
        f"Image not found: {name!r} under images/ here or above. Known: {', '.join(known) or 'none'}.",
        fix="Choose one with --image, or change to the project's folder.",
        id="image-unknown",
    )


def within_project(path: str, *, project: Path, cwd: Path) -> str:
    """Return the folder as the lock can store it: relative to the project if it is inside, else absolute."""
    absolute = (cwd / path).resolve()
    home = project.resolve()
    return absolute.relative_to(home).as_posix() if absolute.is_relative_to(home) else str(absolute)


def _locked_versions(lock: Path) -> dict[str, str]:
    """Return the versions that pip's lock pins; empty for an image without one."""
    return dict(PIN.findall(read_text(lock))) if lock.is_file() else {}


def _source_tree(text: str, by: MaterialReaders) -> SourceTree | None:
    return source_of(text, project=by.images.parent, env=by.env, cache=by.cache, progress=by.progress)


def _base_ref(options: BuildOptions, deps: DockerfilePart) -> str | None:
    return (options.base or deps.args["BASE_IMAGE"]) if "BASE_IMAGE" in deps.args else None


def _shareable_options(options: BuildOptions) -> BuildOptions | None:
    """Return the options without those that apply only to this call or to this machine."""
    folders = (*options.code, options.maxtext_source, options.tunix_source)
    if any(Path(folder).is_absolute() for folder in folders):
        return None
    return replace(options, registry=None, pip_config=None)

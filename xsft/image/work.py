"""From the options of a call to the recipe of an image: the options of the last push, the base image, the files, and
the source of MaxText and Tunix: a folder of the user's, or a commit, which git fetches with its own logins.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from xsft.base.errors import EnvironmentMissing, Refused, Unreachable, XsftError, refuse_errors
from xsft.base.problems import Problem
from xsft.base.secrets import redact
from xsft.image.code_layer import digest_of
from xsft.image.folders import read_image_files, refuse_content
from xsft.image.lock import Lock, LockedImage
from xsft.image.lock_file import read_lock_file
from xsft.image.options import (
    PYPI,
    BuildOptions,
    argument_problems,
    combine_options,
    option_problems,
    option_words,
)
from xsft.image.push import ImageMaker
from xsft.image.recipe import Recipe, make_recipe, repository_in
from xsft.image.reference import parse_reference, repository_of
from xsft.machine.filelock import exclusive
from xsft.machine.paths import checkout, git_commit, own_cache, private_folder
from xsft.machine.process import run

FETCH_TIMEOUT_S = 600.0
_COMMIT = re.compile(r"[0-9a-f]{40}")


class ImageRequest(Struct, frozen=True, kw_only=True):
    """The image that is wanted, as the options of `xsft image` name it."""

    image: str
    """Folder below images/."""
    options: BuildOptions
    """Options that the call gives; the others are those of the last push."""
    forgets: bool = False
    """Whether the options of the last push are not used."""
    registry: str | None = None
    updates_base: bool = False
    """Whether the base's tag is resolved again."""
    needs_base: bool = True
    """Whether a base whose digest is unknown is an error."""


class PlannedImage(Struct, frozen=True, kw_only=True):
    """An image that can be made."""

    recipe: Recipe
    maxtext_label: str
    """`pypi`, `git <commit>` or `tree <commit>[-dirty]`."""
    problems: tuple[Problem, ...]
    """Warnings."""


class SourceTree(Struct, frozen=True, kw_only=True):
    """A source tree on this machine."""

    folder: Path
    label: str
    """`git <commit>` or `tree <commit>[-dirty]`: for the document; never a path or an address."""


def plan_image(request: ImageRequest, maker: ImageMaker) -> PlannedImage:
    """Return the planned image. Raises SpecError with every problem of one kind, UsageError for what is missing, and as
    the readers do.
    """
    project = maker.images.parent
    lock = read_lock_file(maker.images, request.image)
    last = lock.last_push(repository_in(request.registry, request.image) if request.registry else None)
    options = _choose_options(request, last, maker)
    problems = refuse_errors(option_problems(options, image=request.image, registry=request.registry))
    if request.registry:
        repository_of(request.registry)  # the names of Artifact Registry, before anything is built
    trees = {
        package: source_of(source, project=project, env=maker.env, cache=own_cache(), progress=maker.say)
        for package, source in options.sources.items()
    }
    files = read_image_files(maker.images, request.image, options, {name: tree.folder for name, tree in trees.items()})
    problems += refuse_content(files.context, accept=maker.accept)
    # Of a fork only the files that enter a layer are searched for secrets, once the installed ones are known.
    problems += refuse_content(files.code, accept=maker.accept, searched="code/")
    problems += refuse_errors(argument_problems(options, files.arguments))
    base = _choose_base(options.base or files.arguments.get("BASE_IMAGE") or "", request, lock, last, maker)
    return PlannedImage(
        recipe=make_recipe(options, files, image=request.image, registry=request.registry, base=base),
        maxtext_label=trees["maxtext"].label if "maxtext" in trees else PYPI,
        problems=problems,
    )


def within_project(path: str, *, project: Path, cwd: Path) -> str:
    """Return the folder as the lock can store it: relative to the project if it is inside, else absolute."""
    absolute = (cwd / path).resolve()
    if absolute.is_relative_to(project.resolve()):
        return absolute.relative_to(project.resolve()).as_posix()
    return str(absolute)


def source_of(
    text: str, *, project: Path, env: Mapping[str, str], cache: Path, progress: Callable[[str], None]
) -> SourceTree:
    """Return the tree of a folder or a commit. Raises Unreachable if the commit cannot be fetched, EnvironmentMissing
    without git.
    """
    if text.startswith("git+"):
        url, _, ref = text.removeprefix("git+").rpartition("@")
        return _checked_out(url, ref, env=env, cache=cache / "image-sources", progress=progress)
    folder = project / text
    label = "tree"
    if folder.is_dir() and (state := checkout(folder)):
        label = f"tree {state.commit}-dirty" if state.dirty else f"tree {state.commit}"
    return SourceTree(folder=folder, label=label)


def _choose_options(request: ImageRequest, last: LockedImage | None, maker: ImageMaker) -> BuildOptions:
    """Return the options of the call over those of the last push; each difference is named.

    Raises Refused if the last push had options that the lock cannot name: without them another image would be pushed.
    """
    if last and last.options is None and not request.forgets and request.options == BuildOptions():
        raise Refused(
            f"The options of the last push to {last.repository} cannot be repeated: they name a folder outside the "
            "project, or come from a later xsft.",
            fix="Give the options again, or --forget to use the defaults.",
            id="image-options",
        )
    before = (last and last.options) or BuildOptions()
    options = combine_options(request.options, BuildOptions() if request.forgets else before)
    words = option_words(options) or "none"
    words_before = option_words(before) or "none"
    if last and words != words_before:
        maker.say(f"options: {words}; the last push had {words_before}")
    elif words != "none":
        maker.say(f"options: {words}")
    return options


def _choose_base(name: str, request: ImageRequest, lock: Lock, last: LockedImage | None, maker: ImageMaker) -> str:
    """Return the base as `Recipe.base` describes it: with the digest in its name, else with that of the last push, else
    with the engine's or the registry's.

    Raises EnvironmentMissing if neither the engine nor the registry has it, and as they do if they do not answer.
    """
    if not name or parse_reference(name).digest:
        return name
    for digested in (last.base if last else "", lock.base):
        if not request.updates_base and digested.startswith((f"{name}@", f"{name}#")):
            return digested
    base = _look_up_base(name, maker, needed=request.needs_base)
    if "@" in base:
        maker.say(f"the base {name} may move; pin it in images/{request.image}/Dockerfile: ARG BASE_IMAGE={base}")
    return base


def _look_up_base(ref: str, maker: ImageMaker, *, needed: bool) -> str:
    """Return the base from the engine, which is what FROM would use, else from the registry. If none answers, both
    errors are reported, the engine's first.
    """
    missing: EnvironmentMissing | None = None
    try:
        image = maker.connect(maker.env).image(ref)
    except EnvironmentMissing as failed:  # without an engine the registry may still have the base
        image = None
        missing = failed
    if image:
        digest = image.digest_in(parse_reference(ref).name)
        return f"{ref}@{digest}" if digest else f"{ref}#{image.id}"
    try:
        repository = maker.repository(ref, env=maker.env)
        manifest = repository.manifest(repository.at.identifier)
        if manifest is None:
            raise EnvironmentMissing(
                f"The base image {ref} is neither in the engine nor in its registry.",
                fix="Correct --base, or BASE_IMAGE in the Dockerfile.",
                id="image-absent",
            )
    except XsftError as failed:
        problem = missing.with_problems_of(failed) if missing else failed
        if needed:
            raise problem from None
        for unanswered in problem.problems:
            maker.say(unanswered.message)
        maker.say(f"The digest of {ref} is unknown, so the tags below may change.")
        return ref
    return f"{ref}@{digest_of(manifest[0])}"


def _checked_out(
    url: str, ref: str, *, env: Mapping[str, str], cache: Path, progress: Callable[[str], None]
) -> SourceTree:
    """Return the tree of a commit. A full commit that is in the cache is used without a request; a tag or branch is
    looked up each time.
    """
    name = hashlib.sha256(url.encode()).hexdigest()[:16]
    with exclusive(cache / f"{name}.lock", waiting=lambda: progress("waiting for another fetch of the same source")):
        folder = cache / name / ref
        if _COMMIT.fullmatch(ref) and folder.is_dir():
            return SourceTree(folder=folder, label=f"git {ref}")
        progress(f"fetching {ref} of {url}")
        fresh = cache / name / "fetching"
        shutil.rmtree(fresh, ignore_errors=True)
        private_folder(fresh)
        commit = _fetch(url, ref, into=fresh, env=env)
        folder = cache / name / commit
        if not folder.is_dir():
            fresh.rename(folder)
        return SourceTree(folder=folder, label=f"git {commit}")


def _fetch(url: str, ref: str, *, into: Path, env: Mapping[str, str]) -> str:
    """Fetch with a depth of one commit. Returns the commit."""
    without_prompt = {**env, "GIT_TERMINAL_PROMPT": "0"}
    for arguments in (
        ("init", "--quiet"),
        ("fetch", "--quiet", "--depth", "1", "--end-of-options", url, ref),
        ("-c", "advice.detachedHead=false", "checkout", "--quiet", "FETCH_HEAD"),
    ):
        done = run(("git", "-C", str(into), *arguments), env=without_prompt, timeout_s=FETCH_TIMEOUT_S)
        if not done.ok:
            words = redact(" ".join(done.stderr.split()))[:300]
            raise Unreachable(
                f"{ref} of {url} could not be fetched: {words}",
                fix="Check that the commit is pushed and that `git ls-remote` works with that URL, or use a folder "
                "instead.",
                id="image-source",
            )
    commit = git_commit(into)
    if commit is None:
        raise EnvironmentMissing(f"git fetched {ref}, but checked out no files.", fix="Update git.", id="image-source")
    return commit

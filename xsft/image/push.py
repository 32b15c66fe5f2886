"""Makes an image and pushes it: the dependencies by an engine, once; the code through the registry's API; the lock
last, after the registry has proven the digest.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.amounts import size_text
from xsft.base.errors import (
    EnvironmentMissing,
    Forbidden,
    Refused,
    RepositoryMissing,
    Unknown,
    XsftError,
    refuse_errors,
)
from xsft.base.lenient import ShowLine
from xsft.base.problems import error
from xsft.image.build import Build, run_build
from xsft.image.code_layer import (
    MANIFEST,
    RECORD,
    DepsRecord,
    ImageDocuments,
    code_files,
    decode_record,
    has_code,
    is_same_image,
    overlaid_packages,
    program_files,
    with_layers,
)
from xsft.image.context import ContextFile, accept_problems
from xsft.image.engine import Engine, connect_engine
from xsft.image.folders import layer_archive, refuse_content
from xsft.image.lock import LockedImage
from xsft.image.lock_file import keep_lock, read_lock_file
from xsft.image.login import create_repository
from xsft.image.recipe import DOCKERFILE, KIND_LABEL, TAG_LABEL, Recipe, registry_of_repository
from xsft.image.registry import RegistryClient
from xsft.machine import clock
from xsft.machine.paths import checkout

NEEDED_BYTES = 8 << 30
"""Free space that a build of the dependencies may need: 2.6 GB of packages, and BuildKit's cache of them."""


class ImageStep(Struct, frozen=True):
    """What was done for one of the two images."""

    outcome: Literal["held", "in-registry", "pulled", "built", "not-needed"]
    seconds: float = 0.0


class ImageDone(Struct, frozen=True, kw_only=True):
    """What `build` or `push` did."""

    deps: ImageStep = ImageStep("not-needed")
    code: ImageStep
    locked: LockedImage | None = None
    """The pushed image, as it is in the lock."""
    sent_bytes: int = 0
    """Bytes that the registry did not have, without those of the dependencies."""


class ImageMaker(Struct, frozen=True, kw_only=True):
    """The tools with which an image is made; each connects when it is first needed."""

    images: Path
    """The folder images/."""
    env: Mapping[str, str]
    pip_config: str | None = None
    """Absolute path of a pip.conf, mounted while packages are installed; never in a layer, an argument or the
    history.
    """
    say: ShowLine = lambda _line: None
    """Shows what begins."""
    pass_on: ShowLine = lambda _line: None
    """Shows a line of a build or transfer."""
    accept: Sequence[str] = ()
    """Ids of accepted problems."""
    creates: bool = False
    """Whether a missing repository is created."""
    connect: Callable[[Mapping[str, str]], Engine] = connect_engine
    build: Callable[..., None] = run_build
    repository: Callable[..., RegistryClient] = RegistryClient
    create: Callable[..., None] = create_repository
    now: Callable[[], str] = clock.now


def build_image(recipe: Recipe, maker: ImageMaker) -> ImageDone:
    """Make both images in this machine's engine, each only if it is missing. Raises as the engine does. A registry that
    does not answer, or has another image, does not prevent building.
    """
    engine = maker.connect(maker.env)
    if _is_held(engine, recipe, recipe.code.tag):
        return ImageDone(code=ImageStep("held"))
    deps = _deps_in_engine(engine, recipe, maker)
    started = clock.monotonic()
    maker.say(f"building {recipe.code.tag}")
    _build_code(engine, recipe, maker)
    return ImageDone(deps=deps, code=ImageStep("built", clock.monotonic() - started))


def push_image(recipe: Recipe, maker: ImageMaker) -> ImageDone:
    """Ensure that the registry has the image, and write its digest into the lock.

    Raises as engine and registry do; Refused if the registry has another image under one of the two tags; Unknown if it
    does not confirm the digest. Nothing is recorded then.
    """
    assert recipe.repository is not None
    repository = maker.repository(recipe.repository, env=maker.env)
    locked = read_lock_file(maker.images, recipe.image).images.get(recipe.repository)
    maker.say(f"asking {recipe.repository} for {recipe.code.tag}")
    if locked and locked.code == recipe.code.tag and repository.manifest(locked.digest):
        done = ImageDone(code=ImageStep("in-registry"))
        digest = locked.digest
        deps_digest = locked.deps_digest
    else:
        deps, step = _deps_in_registry(recipe, repository, maker)
        digest, done = _push_code(recipe, repository, deps, maker)
        done = replace(done, deps=step)
        deps_digest = deps.digest
    state = checkout(maker.images.parent)
    options = recipe.options
    pushed = LockedImage(
        image=recipe.image,
        repository=recipe.repository,
        digest=digest,
        maxtext=options.release,
        deps=recipe.deps.tag,
        deps_digest=deps_digest,
        code=recipe.code.tag,
        pushed_at=maker.now(),
        commit=state.commit if state else None,
        dirty=state.dirty if state else None,
        base=recipe.base,
        evaluate=next((file.sha256 for file in recipe.code.files if file.path.startswith("xsft/")), None),
        options=replace(options, maxtext=options.release) if options.is_shareable else None,
    )
    keep_lock(maker.images, pushed)
    return replace(done, locked=pushed)


# The dependencies.


def _deps_in_registry(
    recipe: Recipe, repository: RegistryClient, maker: ImageMaker
) -> tuple[ImageDocuments, ImageStep]:
    """Return the dependencies' image in the registry, built and pushed if it is missing."""
    image = _find_deps(recipe, repository, maker)
    if image:
        return image, ImageStep("in-registry")
    try:  # what would be refused after minutes of building is refused now
        repository.refuse_unless_pushable()
    except (RepositoryMissing, Forbidden):  # Google answers 403 for a repository that does not exist, too
        if not maker.creates:
            raise
        maker.create(registry_of_repository(repository.name, recipe.image), env=maker.env, say=maker.say)
    engine = maker.connect(maker.env)
    step = _held_or_built(engine, recipe, maker)
    maker.say(f"pushing {repository.name}:{recipe.deps.tag}")
    name = recipe.local(recipe.deps.tag)
    digest = engine.push(name, repository=repository.name, tag=recipe.deps.tag, on_line=maker.pass_on)
    pushed = repository.image(digest)
    if pushed is None:
        raise _unconfirmed(repository, digest)
    _refuse_other_lock(recipe, repository, pushed)
    return pushed, step


def _find_deps(recipe: Recipe, repository: RegistryClient, maker: ImageMaker) -> ImageDocuments | None:
    """Return the image that the lock names by digest, even if its tag has moved; else the image that has the tag, if
    its content says that it is made from these locked packages.
    """
    locked = read_lock_file(maker.images, recipe.image).images.get(repository.name)
    image = None
    if locked and locked.deps == recipe.deps.tag and locked.deps_digest:
        image = repository.image(locked.deps_digest)
    if image is None and (image := repository.image(recipe.deps.tag)):
        _refuse_other_lock(recipe, repository, image)
    return image


def _refuse_other_lock(recipe: Recipe, repository: RegistryClient, image: ImageDocuments) -> None:
    """Raise Refused for an image with other packages. Its labels prove nothing: whoever may push can copy them."""
    record = read_record(repository, image)
    # the file of a layer cannot be changed without another digest, and names each package of the lock by its hash
    if record is None:
        raise _foreign(repository, recipe.deps.tag, image.digest, f"it has no /{RECORD} in its last layer")
    if record.lock_sha256 != recipe.deps.lock_sha256:
        why = f"it has the packages of another lock, {record.lock_sha256[:12]}"
        raise _foreign(repository, recipe.deps.tag, image.digest, why)


def read_record(repository: RegistryClient, image: ImageDocuments) -> DepsRecord | None:
    """Return the record in the image's last layer, compressed or not; None if there is none."""
    layers = MANIFEST.decode(image.manifest).layers
    if not layers:
        return None
    layer = repository.blob(layers[-1].digest)
    try:
        with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
            content = tar.extractfile(RECORD)
            return decode_record(content.read()) if content else None
    except (tarfile.TarError, KeyError, EOFError, OSError):  # anybody may have pushed the image
        return None


def _deps_in_engine(engine: Engine, recipe: Recipe, maker: ImageMaker) -> ImageStep:
    """Return how the dependencies came into the engine: they were there, or were pulled, or built."""
    tag = recipe.deps.tag
    image = None
    if recipe.repository and not _is_held(engine, recipe, tag):
        try:
            image = _find_deps(recipe, maker.repository(recipe.repository, env=maker.env), maker)
        except XsftError as failed:  # building again is slow, but correct
            maker.say(f"{failed.message} (continuing without it)")
    if image is None:
        return _held_or_built(engine, recipe, maker)
    started = clock.monotonic()
    ref = f"{recipe.repository}@{image.digest}"
    maker.say(f"pulling {tag}: {ref}")
    engine.pull(ref, on_line=maker.pass_on)
    engine.tag(ref, repository=recipe.local(tag).rpartition(":")[0], tag=tag)
    return ImageStep("pulled", clock.monotonic() - started)


def _held_or_built(engine: Engine, recipe: Recipe, maker: ImageMaker) -> ImageStep:
    tag = recipe.deps.tag
    if _is_held(engine, recipe, tag):
        return ImageStep("held")
    started = clock.monotonic()
    free = engine.free_bytes()
    if free is not None and free < NEEDED_BYTES:
        space = f"{size_text(free)} free; building the dependencies may need {size_text(NEEDED_BYTES)}"
        fix = "`docker system df` shows the usage. Free space, or pass --accept disk-full."
        full = error("disk-full", "", f"The engine's disk has {space}.", fix, kind="disputable")
        refuse_errors(accept_problems((full,), maker.accept))
    if "@" in recipe.base and engine.image(recipe.base) is None:
        # A private base: the engine has the user's login from the SDK, BuildKit's has its own rules.
        maker.say(f"pulling {recipe.base}")
        engine.pull(recipe.base, on_line=maker.pass_on)
    maker.say(f"building {tag}")
    build = Build(
        what=f"the deps image {tag}",
        name=recipe.local(tag),
        files=recipe.deps.files,
        args=recipe.deps.args,
        labels=recipe.deps.labels,
        pip_config=maker.pip_config,
    )
    maker.build(build, engine=engine, on_line=maker.pass_on)
    return ImageStep("built", clock.monotonic() - started)


def _is_held(engine: Engine, recipe: Recipe, tag: str) -> bool:
    """Return whether the engine has the image that xsft made for this tag, and not another one under its name."""
    image = engine.image(recipe.local(tag))
    return image is not None and image.labels.get(TAG_LABEL) == tag


# The code.


def _push_code(
    recipe: Recipe, repository: RegistryClient, deps: ImageDocuments, maker: ImageMaker
) -> tuple[str, ImageDone]:
    """Return the digest of the image with the code on these dependencies, and what was done."""
    started = clock.monotonic()
    record = None
    if overlaid_packages(recipe.code.files):  # without a fork nothing is compared, so it is not asked for
        record = read_record(repository, deps)
    # Programs of xsft change with xsft, not with the user's code: in one layer each changed line would send them too.
    contents = (program_files(recipe.code.files), _code_files(recipe, record, maker))
    archives = [layer_archive(files) for files in contents if files]
    layers = [layer for layer, _ in archives]
    image = with_layers(deps, layers, user=recipe.code.user)
    existing = repository.image(recipe.code.tag)
    if existing and is_same_image(existing, image):
        return existing.digest, ImageDone(code=ImageStep("in-registry"))
    if existing and not has_code(existing, layers):
        raise _foreign(repository, recipe.code.tag, existing.digest, "its last layers are not this code")
    maker.say(f"adding the code: {repository.name}:{recipe.code.tag}")
    sent_bytes = sum(repository.add_blob(content) for _, content in archives)
    sent_bytes += repository.add_blob(image.configuration)
    repository.put_manifest(image, tag=recipe.code.tag)
    if repository.manifest(image.digest) is None:
        raise _unconfirmed(repository, image.digest)
    step = ImageStep("built", clock.monotonic() - started)
    return image.digest, ImageDone(code=step, sent_bytes=sent_bytes + len(image.manifest))


def _code_files(recipe: Recipe, record: DepsRecord | None, maker: ImageMaker) -> tuple[ContextFile, ...]:
    """Return the files of the code's layer. `record`: None if the dependencies have none.

    Raises EnvironmentMissing if a fork cannot be compared with it, SpecError for a file that must not be in an image,
    e.g. a secret.
    """
    record = record or DepsRecord(lock_sha256="")
    for package in overlaid_packages(recipe.code.files):
        if package not in record.packages:
            raise EnvironmentMissing(
                f"The deps image {recipe.deps.tag} has no /{RECORD} that tells what is installed of {package}.",
                fix=f"Write it in the last step of {DOCKERFILE}, as in images/post_training.",
                id="image-dockerfile",
            )
    files = code_files(recipe.code.files, record)
    refuse_content(files, accept=maker.accept)
    return files


def _build_code(engine: Engine, recipe: Recipe, maker: ImageMaker) -> None:
    """Lay the code over the dependencies in the engine: there a whiteout is a removal."""
    deps = recipe.local(recipe.deps.tag)
    record = decode_record(engine.read_file(deps, f"/{RECORD}") or b"")
    files = (*program_files(recipe.code.files), *_code_files(recipe, record, maker))
    removed = [file.path.replace("/.wh.", "/") for file in files if "/.wh." in file.path]
    laid = [replace(file, path=f"layer/{file.path}") for file in files if "/.wh." not in file.path]
    lines = [f"FROM {deps}", "USER 0:0"]
    if laid:
        lines.append("COPY layer/ /")
    if removed:
        lines.append(f"RUN {json.dumps(['rm', '-f', *(f'/{path}' for path in removed)])}")
    lines += ["ENV PYTHONPATH=/app/code", f"USER {recipe.code.user}", ""]
    dockerfile = "\n".join(lines).encode()
    build = Build(
        what=f"the code image {recipe.code.tag}",
        name=recipe.local(recipe.code.tag),
        files=(ContextFile(path=DOCKERFILE, kind="file", size=len(dockerfile), content=dockerfile), *laid),
        labels={KIND_LABEL: "code", TAG_LABEL: recipe.code.tag},
        network="none",
    )
    maker.build(build, engine=engine, on_line=maker.pass_on)


def _foreign(repository: RegistryClient, tag: str, digest: str, why: str) -> Refused:
    return Refused(
        f"{repository.name}:{tag} in the registry is another image ({digest}): {why}.",
        fix="Find out who pushed it. Remove that tag from the registry, or use another --registry; xsft does not "
        "overwrite or record images that it did not push.",
        id="image-foreign",
    )


def _unconfirmed(repository: RegistryClient, digest: str) -> Unknown:
    return Unknown(
        f"{repository.name}@{digest} was pushed, but the registry does not have it: nothing was recorded.",
        fix="Push again; if it fails again, ask the registry's administrator.",
        id="push-unconfirmed",
    )

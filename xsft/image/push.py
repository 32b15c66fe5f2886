"""Makes an image and pushes it: the dependencies by an engine, once; the code through the registry's API; the lock
last, after the registry has proven the digest.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field

from xsft.base.aliases import ShowLine
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
from xsft.base.problems import Problem, error
from xsft.image.archives import layer_archive
from xsft.image.artifact_registry import create_repository
from xsft.image.build import Build, run_build
from xsft.image.code_layer import (
    RECORD,
    RECORD_DECODER,
    DepsRecord,
    ImageDocuments,
    code_files,
    digest_of,
    has_code,
    is_same_image,
    overlaid_packages,
    program_files,
    with_layers,
)
from xsft.image.context import ContextFile, accept_problems
from xsft.image.engine import Engine, connect_engine
from xsft.image.folders import refuse_content
from xsft.image.lock import LockedImage
from xsft.image.lock_file import keep_lock, read_lock_file
from xsft.image.recipe import DOCKERFILE, KIND_LABEL, TAG_LABEL, Recipe, registry_of_repository
from xsft.image.registry import RegistryClient
from xsft.machine import clock
from xsft.machine.checkout import checkout
from xsft.machine.files import write_private
from xsft.machine.paths import own_cache
from xsft.machine.scratch import scratch_folder

BuildOutcome = Literal["held", "in-registry", "pulled", "built", "not-needed"]
NEEDED_BYTES = 8 << 30
"""Free space that a build of the dependencies may need: 2.6 GB of packages, and BuildKit's cache of them."""


class ImageStep(Struct, frozen=True, kw_only=True):
    """The outcome for one of the two images."""

    tag: str
    outcome: BuildOutcome
    seconds: float = 0.0


class ImageDone(Struct, frozen=True, kw_only=True):
    """What `build` or `push` did."""

    deps: ImageStep
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
    seconds: Callable[[], float] = field(default=clock.monotonic)


def build_image(recipe: Recipe, maker: ImageMaker) -> ImageDone:
    """Make both images in this machine's engine, each only if it is missing. Raises as the engine does. A registry that
    does not answer, or has another image, does not prevent building.
    """
    engine = maker.connect(maker.env)
    if _is_held(engine, recipe, recipe.code.tag):
        return _nothing_to_do(recipe, "held")
    deps = _deps_in_engine(engine, recipe, maker)
    started = maker.seconds()
    maker.say(f"building {recipe.code.tag}")
    _build_code(engine, recipe, maker)
    return ImageDone(deps=deps, code=ImageStep(tag=recipe.code.tag, outcome="built", seconds=maker.seconds() - started))


def push_image(recipe: Recipe, maker: ImageMaker) -> ImageDone:
    """Ensure that the registry has the image, and write its digest into the lock.

    Raises as engine and registry do; Refused if the registry has another image under one of the two tags; Unknown if it
    does not confirm the digest. Nothing is recorded then.
    """
    assert recipe.repository is not None
    state = checkout(maker.images.parent)
    repository = maker.repository(recipe.repository, env=maker.env)
    locked = read_lock_file(maker.images, recipe.image).images.get(recipe.repository)
    maker.say(f"asking {recipe.repository} for {recipe.code.tag}")
    if locked and locked.code == recipe.code.tag and repository.manifest(locked.digest):
        done = _nothing_to_do(recipe, "in-registry")
        digest = locked.digest
        deps_digest = locked.deps_digest
    else:
        deps, step = _deps_in_registry(recipe, repository, locked, maker)
        digest, done = _push_code(recipe, repository, deps, maker, deps_step=step)
        deps_digest = deps.digest
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
        options=msgspec.structs.replace(options, maxtext=options.release) if options.is_shareable else None,
    )
    keep_lock(maker.images, pushed)
    return msgspec.structs.replace(done, locked=pushed)


def _nothing_to_do(recipe: Recipe, outcome: BuildOutcome) -> ImageDone:
    return ImageDone(
        deps=ImageStep(tag=recipe.deps.tag, outcome="not-needed"),
        code=ImageStep(tag=recipe.code.tag, outcome=outcome),
    )


# The dependencies.


def _deps_in_registry(
    recipe: Recipe, repository: RegistryClient, locked: LockedImage | None, maker: ImageMaker
) -> tuple[ImageDocuments, ImageStep]:
    """Return the dependencies' image in the registry, built and pushed if it is missing."""
    image = _find_deps(recipe, repository, locked)
    if image:
        return image, ImageStep(tag=recipe.deps.tag, outcome="in-registry")
    # What would be refused after minutes of building is refused now.
    _ensure_pushable(recipe, repository, maker)
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


def _find_deps(recipe: Recipe, repository: RegistryClient, locked: LockedImage | None) -> ImageDocuments | None:
    """Return the image that the lock names by digest, even if its tag has moved; else the image that has the tag, if
    its content says that it is made from these locked packages.
    """
    if locked and locked.deps == recipe.deps.tag and locked.deps_digest:
        image = repository.image(locked.deps_digest)
        if image:
            return image
    image = repository.image(recipe.deps.tag)
    if image:
        _refuse_other_lock(recipe, repository, image)
    return image


def _refuse_other_lock(recipe: Recipe, repository: RegistryClient, image: ImageDocuments) -> None:
    """Raise Refused for an image with other packages. Its labels prove nothing: whoever may push can copy them."""
    try:
        record = read_record(repository, image)
    except EnvironmentMissing as missing:
        why = f"it has no /{RECORD} in its last layer"
        raise _foreign(repository, recipe.deps.tag, image.digest, why) from missing
    if record.lock_sha256 != recipe.deps.lock_sha256:
        why = f"it has the packages of another lock, {record.lock_sha256[:12]}"
        raise _foreign(repository, recipe.deps.tag, image.digest, why)


def read_record(repository: RegistryClient, image: ImageDocuments) -> DepsRecord:
    """Return the record in the image's last layer; kept in the cache by the layer's digest.

    Raises EnvironmentMissing if there is none.
    """
    layers = msgspec.json.decode(image.manifest)["layers"]
    last = layers[-1]["digest"] if layers else ""
    cached = own_cache() / "image-records" / f"{last.removeprefix('sha256:')}.json"
    with suppress(OSError):
        return _decode_record(cached.read_bytes(), repository.name)
    content = _file_of_layer(repository.blob(last)) if layers else None
    if content is None:
        raise _no_record(repository.name)
    record = _decode_record(content, repository.name)
    with suppress(OSError, XsftError):  # the next call asks the registry again
        write_private(cached, content)
    return record


def _file_of_layer(layer: bytes) -> bytes | None:
    """Return the record's file in a layer, compressed or not; None if it is not a layer with that file."""
    try:
        with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
            content = tar.extractfile(RECORD)
            return content.read() if content else None
    except (tarfile.TarError, KeyError, EOFError, OSError):
        return None


def _decode_record(content: bytes, name: str) -> DepsRecord:
    try:
        return RECORD_DECODER.decode(content)
    except (msgspec.DecodeError, RecursionError):
        raise _no_record(name) from None


def _no_record(name: str) -> EnvironmentMissing:
    return EnvironmentMissing(
        f"{name} has no readable /{RECORD} in its last layer, by which xsft knows what is installed.",
        fix=f"Make it the last step of {DOCKERFILE}, as in images/post_training.",
        id="image-dockerfile",
    )


def _deps_in_engine(engine: Engine, recipe: Recipe, maker: ImageMaker) -> ImageStep:
    """Return how the dependencies came into the engine: they were there, or were pulled, or built."""
    tag = recipe.deps.tag
    if recipe.repository is None or _is_held(engine, recipe, tag):
        return _held_or_built(engine, recipe, maker)
    digest = _digest_leniently(recipe, maker)
    if digest is None:
        return _held_or_built(engine, recipe, maker)
    started = maker.seconds()
    ref = f"{recipe.repository}@{digest}"
    maker.say(f"pulling {tag}: {ref}")
    engine.pull(ref, on_line=maker.pass_on)
    engine.tag(ref, repository=recipe.local(tag).rpartition(":")[0], tag=tag)
    return ImageStep(tag=tag, outcome="pulled", seconds=maker.seconds() - started)


def _digest_leniently(recipe: Recipe, maker: ImageMaker) -> str | None:
    """Return the digest of the dependencies in the registry, or None, also if it does not answer: building again is
    slow, but correct.
    """
    try:
        repository = maker.repository(recipe.repository, env=maker.env)
        locked = read_lock_file(maker.images, recipe.image).images.get(repository.name)
        image = _find_deps(recipe, repository, locked)
    except XsftError as failed:
        maker.say(f"{failed.message} (continuing without it)")
        return None
    return image.digest if image else None


def _held_or_built(engine: Engine, recipe: Recipe, maker: ImageMaker) -> ImageStep:
    tag = recipe.deps.tag
    if _is_held(engine, recipe, tag):
        return ImageStep(tag=tag, outcome="held")
    started = maker.seconds()
    refuse_errors(accept_problems(_space_problems(engine), maker.accept))
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
    return ImageStep(tag=tag, outcome="built", seconds=maker.seconds() - started)


def _space_problems(engine: Engine) -> Iterator[Problem]:
    free = engine.free_bytes()
    if free is not None and free < NEEDED_BYTES:
        message = (
            f"The engine's disk has {size_text(free)} free; building the dependencies may need "
            f"{size_text(NEEDED_BYTES)}."
        )
        fix = "`docker system df` shows the usage. Free space, or pass --accept disk-full."
        yield error("disk-full", "", message, fix, kind="disputable")


def _is_held(engine: Engine, recipe: Recipe, tag: str) -> bool:
    """Return whether the engine has the image that xsft made for this tag, and not another one under its name."""
    image = engine.image(recipe.local(tag))
    return image is not None and image.labels.get(TAG_LABEL) == tag


def _ensure_pushable(recipe: Recipe, repository: RegistryClient, maker: ImageMaker) -> None:
    """Check the right to push, and that the repository exists; create it if that is wished."""
    try:
        repository.refuse_unless_pushable()
    except (RepositoryMissing, Forbidden):  # Google answers 403 for a repository that does not exist, too
        if not maker.creates:
            raise
        registry = registry_of_repository(repository.name, recipe.image)
        maker.create(registry, env=maker.env, say=maker.say)


# The code.


def _push_code(
    recipe: Recipe, repository: RegistryClient, deps: ImageDocuments, maker: ImageMaker, *, deps_step: ImageStep
) -> tuple[str, ImageDone]:
    """Return the digest of the image with the code on these dependencies, and what was done."""
    started = maker.seconds()
    record = DepsRecord(lock_sha256=recipe.deps.lock_sha256)
    if overlaid_packages(recipe.code.files):  # without a fork nothing is compared, so it is not asked for
        record = read_record(repository, deps)
    # Programs of xsft change with xsft, not with the user's code: in one layer each changed line would send them too.
    contents = (program_files(recipe.code.files), _code_files(recipe, record, maker))
    with ExitStack() as stack:
        layers = [stack.enter_context(layer_archive(files)) for files in contents if files]
        image = with_layers(deps, [layer for layer, _ in layers], user=recipe.code.user)
        existing = repository.image(recipe.code.tag)
        if existing and is_same_image(existing, image):
            code = ImageStep(tag=recipe.code.tag, outcome="in-registry")
            return existing.digest, ImageDone(deps=deps_step, code=code)
        if existing and not has_code(existing, [layer for layer, _ in layers]):
            raise _foreign(repository, recipe.code.tag, existing.digest, "its last layers are not this code")
        maker.say(f"adding the code: {repository.name}:{recipe.code.tag}")
        sent_bytes = sum(repository.add_blob(archive, digest=layer.digest) for layer, archive in layers)
    sent_bytes += repository.add_blob(io.BytesIO(image.configuration), digest=digest_of(image.configuration))
    repository.put_manifest(image, tag=recipe.code.tag)
    if repository.manifest(image.digest) is None:
        raise _unconfirmed(repository, image.digest)
    code = ImageStep(tag=recipe.code.tag, outcome="built", seconds=maker.seconds() - started)
    return image.digest, ImageDone(deps=deps_step, code=code, sent_bytes=sent_bytes + len(image.manifest))


def _code_files(recipe: Recipe, record: DepsRecord, maker: ImageMaker) -> tuple[ContextFile, ...]:
    """Return the files of the code's layer. Raises SpecError for a file that must not be in an image, e.g. a secret."""
    for package in overlaid_packages(recipe.code.files):
        if package not in record.packages:
            raise _no_record(f"The deps image (for the source of {package})")
    files = code_files(recipe.code.files, record)
    refuse_content(files, accept=maker.accept)
    return files


def _build_code(engine: Engine, recipe: Recipe, maker: ImageMaker) -> None:
    """Lay the code over the dependencies in the engine: there a whiteout is a removal."""
    deps = recipe.local(recipe.deps.tag)
    content = engine.read_file(deps, f"/{RECORD}")
    if content is None:
        raise _no_record(deps)
    files = (*program_files(recipe.code.files), *_code_files(recipe, _decode_record(content, deps), maker))
    removed = [file.path.replace("/.wh.", "/") for file in files if "/.wh." in file.path]
    laid = [msgspec.structs.replace(file, path=f"layer/{file.path}") for file in files if "/.wh." not in file.path]
    lines = [f"FROM {deps}", "USER 0:0"]
    if laid:
        lines.append("COPY layer/ /")
    if removed:
        lines.append(f"RUN {json.dumps(['rm', '-f', *(f'/{path}' for path in removed)])}")
    lines += ["ENV PYTHONPATH=/app/code", f"USER {recipe.code.user}", ""]
    with scratch_folder("image") as folder:
        dockerfile = folder / DOCKERFILE
        dockerfile.write_text("\n".join(lines), encoding="utf-8")
        written = ContextFile(path=DOCKERFILE, kind="file", size=dockerfile.stat().st_size, source=str(dockerfile))
        build = Build(
            what=f"the code image {recipe.code.tag}",
            name=recipe.local(recipe.code.tag),
            files=(written, *laid),
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

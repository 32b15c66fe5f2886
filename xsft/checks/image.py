"""Check the container image: it is named, and pinned so that later pulls get the same one; and its configuration in its
registry: it exists, is for TPU hosts, and contains what the run needs. Pure.

A version is compared only if the image states it; an image that states none gets a note that its contents are unknown.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator

from xsft.base.acceptance import LateProblem
from xsft.base.problems import Problem, error, note, warning
from xsft.catalog.releases import release
from xsft.checks.facts import Facts
from xsft.image.contents import (
    ImageConfiguration,
    ImageContents,
    ImageLook,
    contents_of,
    jax_of_tag,
    older,
    same_minor,
)
from xsft.image.recipe import PACKAGES_LABEL, PLATFORM, registry_of_repository
from xsft.image.reference import HUB, is_pinned, is_untagged, legacy_warning, parse_image_name, tag_of
from xsft.spec.base import Keys
from xsft.spec.facts import ImageFacts
from xsft.spec.resolve import Run, named_ref

HUB_PULLS = 100
"""Pulls in six hours that Docker Hub grants to an address without a login; behind Cloud NAT all hosts share a few
addresses. source: docs.docker.com/docker-hub/usage/pulls
"""
IMAGE_NOT_FOUND = LateProblem(id="image-not-found")
IMAGE_PLATFORM = LateProblem(id="image-platform")
IMAGE_LARGE = LateProblem(id="image-large")
IMAGE_MAXTEXT_DIFFERS = LateProblem(id="image-maxtext-differs")
IMAGE_DEVICE = LateProblem(id="image-device")
IMAGE_PACKAGE_OLD = LateProblem(id="image-package-old")
PATHWAYS_JAX_DIFFERS = LateProblem(id="pathways-jax-differs")

LARGE = 25 * 2**30
"""Bytes, compressed. Unpacked, about three times as much: the boot disk of a TPU host has 100 GB unless it was made
larger. source: cloud.google.com/kubernetes-engine/docs/how-to/custom-boot-disks
"""
SHELLS = frozenset({"sh", "bash", "python", "python3", "env", "tini", "dumb-init"})


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check `image-missing`, `image-untagged`, `image-not-pinned`, `image-legacy-registry`, `image-pull-limit`, and a
    named image's own problems."""
    del keys
    if run.spec.image.name is not None:
        yield from _check_named_image(run, facts.image or ImageFacts(name=run.spec.image.name))
    elif run.spec.on_cluster:
        yield from _check_reference(run.spec.image.ref)
        yield from _check_pull_limit(run)


def maxtext_differs(version: str, run: Run) -> Problem:
    """Return the problem that the image holds another MaxText release than the one whose layout and keys the plan
    uses.
    """
    named = run.spec.image.maxtext
    message = f"The image has MaxText {version}, but the workload sets {named}, which determines layout and keys."
    fix = f"Write image.maxtext: {version!r}, or use an image with {named}."
    return error("image-maxtext-differs", "image.maxtext", message, fix, kind="disputable")


def _check_reference(ref: str | None) -> Iterator[Problem]:
    if ref is None:
        message = "No image: xpk would pack this folder onto python:3.10 instead."
        fix = "Give image.name (built by `make image push`), or image.ref: us-docker.pkg.dev/…@sha256:…."
        yield error("image-missing", "image.ref", message, fix, kind="unrenderable")
        return
    if is_untagged(ref):
        fix = "Add the digest (@sha256:…), or a tag."
        yield error("image-untagged", "image.ref", f"{ref} has neither tag nor digest: Kubernetes uses :latest.", fix)
    elif not is_pinned(ref):
        what = "it is the image pushed last" if tag_of(ref) == "latest" else "it can change between restarts"
        message = f"{ref} has no digest: {what}. submit refuses it."
        fix = "Add the digest that the push printed: @sha256:…; or accept it: checks: {image-not-pinned: why}."
        yield warning("image-not-pinned", "image.ref", message, fix, kind="open")
    if legacy := legacy_warning(ref, where="image.ref"):
        yield legacy


def _check_pull_limit(run: Run) -> Iterator[Problem]:
    """Check the hosts that pull the image; under Pathways only the head does."""
    image = run.spec.image
    hosts = run.slice.hosts * run.num_slices if run.slice else 0
    if image.ref is None or image.pull_secret or run.mode.single_controller or hosts <= HUB_PULLS:
        return
    if parse_image_name(image.ref).host == HUB:
        message = (
            f"{hosts} hosts pull {image.ref} from Docker Hub without a login, which grants {HUB_PULLS} pulls in six"
            " hours to one address: behind Cloud NAT the rest gets 429 toomanyrequests and holds the slices."
        )
        fix = "Copy it to Artifact Registry (gcrane cp, or docker push) and name that; or set image.pull_secret."
        yield warning("image-pull-limit", "image.ref", message, fix)


def _check_named_image(run: Run, image: ImageFacts) -> Iterator[Problem]:
    """Check a named image: `image-twice`, `image-unknown`, `image-lock-unreadable`, `image-not-pushed`,
    `image-maxtext-differs` and `image-stale`."""
    ref = run.spec.image.ref
    if ref != named_ref(image.name, image):
        message = f"image.name ({image.name}) and image.ref ({ref}) are both given."
        yield error("image-twice", "image", message, "Keep one of them.")
    elif not image.there:
        similar = difflib.get_close_matches(image.name, image.others, n=1)
        hint = f" Did you mean {similar[0]}?" if similar else ""
        names = ", ".join(image.others) or "none (no images/ beside or above the workload)"
        message = f"Image not found: {image.name!r} under images/.{hint} Known: {names}."
        yield error("image-unknown", "image.name", message, "Correct image.name, or give image.ref.")
    elif image.lock_problem:
        fix = "Restore it from git, or remove it and push again; the image itself is in its registry."
        yield error("image-lock-unreadable", "image.name", image.lock_problem, fix)
    elif image.ref is None:
        yield _not_pushed(image, place=run.spec.place if isinstance(run.spec.place, str) else None)
    elif image.maxtext and image.maxtext != run.spec.image.maxtext:
        yield maxtext_differs(image.maxtext, run)
    if image.stale:
        message = (
            f"images/{image.name}, or the code it takes, changed since the push; {image.ref} does not "
            "include the change."
        )
        yield warning("image-stale", "image.name", message, _push_again(image))


def _push_again(image: ImageFacts) -> str:
    """Return the whole command: it repeats the options of the last push."""
    registry = registry_of_repository(str(image.repository), image.name)
    return f"xsft image push --image={image.name} --registry={registry}"


def _not_pushed(image: ImageFacts, *, place: str | None) -> Problem:
    where = f" to {image.repository}" if image.repository else ""
    elsewhere = f" It was pushed to {', '.join(image.pushed_to)}." if image.pushed_to else ""
    message = f"The image {image.name} was never pushed{where}.{elsewhere} submit refuses until it is."
    argument = f"PLACE={place}" if place else "REGISTRY=us-docker.pkg.dev/my-project/xsft"
    return warning(
        "image-not-pushed", "image.name", message, f"make image push IMAGE={image.name} {argument}", kind="absent"
    )


def check_image_contents(look: ImageLook, run: Run, *, trains: bool) -> Iterator[Problem]:
    """Yield the image's problems. `trains`: whether the pods train; those of a CPU job have no Pathways servers."""
    match look.status:
        case "missing":
            message = (
                f"The registry has no image {look.ref} (asked with {look.asked_with}): the pods would wait for it while"
                " they hold their slices."
            )
            yield IMAGE_NOT_FOUND.error("image.ref", message, "Push it, or correct image.ref.")
        case "unread":
            message = (
                f"Unknown: whether the image {look.ref} exists, is for {PLATFORM} and has MaxText"
                f" {run.spec.image.maxtext}. {look.why} (asked with {look.asked_with})"
            )
            yield note(
                "image-not-read",
                "image.ref",
                message,
                "Log in to the registry, and run the check again.",
                kind="unread",
            )
        case "there":
            if look.configuration:
                yield from _check_image_configuration(look.ref, look.configuration, run, trains=trains)


def unread_with_secret(run: Run, secret: str) -> Problem:
    """Return the note on an image that the pods pull with the login in a Secret, which never leaves the cluster. Its
    fix is the commands that test that login."""
    message = (
        f"Unknown: whether the image {run.spec.image.ref} exists, is for {PLATFORM} and has MaxText"
        f" {run.spec.image.maxtext}. The pods pull it with the login in the Secret {secret}, which xsft does not read."
    )
    login = 'go-template={{index .data ".dockerconfigjson" | base64decode}}'
    read = shlex.join(("kubectl", "-n", run.namespace, "get", "secret", secret, "-o", login))
    inspect = shlex.join(("docker", "--config", "pull", "manifest", "inspect", str(run.spec.image.ref)))
    fix = f"To check that this login can read the image: mkdir -m 700 pull && {read} > pull/config.json && {inspect}"
    return note("image-not-read", "image.pull_secret", message, fix, kind="unread")


def _check_image_configuration(ref: str, image: ImageConfiguration, run: Run, *, trains: bool) -> Iterator[Problem]:
    if image.platforms and PLATFORM not in image.platforms:
        message = f"{ref} is for {', '.join(image.platforms)}; TPU hosts are {PLATFORM}: no container would start."
        fix = f"Build it with --platform={PLATFORM}; `make image push` does."
        yield IMAGE_PLATFORM.error("image.ref", message, fix)
    if image.size > LARGE:
        message = (
            f"{ref} is {image.size / 2**30:.0f} GiB compressed. Every host pulls and unpacks it before the first step,"
            " onto a boot disk of 100 GB by default."
        )
        yield IMAGE_LARGE.warning("image.ref", message, "Leave out weights, data and build tools.")
    contents = contents_of(image, ref)
    if not contents.is_known:
        message = f"The packages in {ref} are unknown: none of its labels and variables names MaxText or JAX."
        yield note(
            "image-contents-unknown",
            "image.ref",
            message,
            "Images of `make image push` list their packages; so does a label dev.xsft.packages='jax==… libtpu==…'.",
            kind="unread",
        )
    yield from _check_entrypoint(ref, image)
    yield from _check_maxtext(ref, contents, run)
    # Under Pathways the servers have libtpu, and the image needs none.
    if trains and not run.mode.single_controller and contents.lacks_libtpu:
        message = f"The label {PACKAGES_LABEL} of {ref} names JAX and no libtpu: JAX would train on the hosts' CPUs."
        yield IMAGE_DEVICE.error("image.ref", message, "Install jax[tpu] in the image.")
    yield from _check_package_releases(ref, contents, run)
    if trains and run.mode.single_controller:
        yield from _check_pathways_jax(contents, run)


def _check_entrypoint(ref: str, image: ImageConfiguration) -> Iterator[Problem]:
    program = image.entrypoint[0].rpartition("/")[2] if image.entrypoint else "sh"
    if program not in SHELLS:
        message = f"The entrypoint of {ref}, {' '.join(image.entrypoint)}, does not run: xpk starts bash instead."
        fix = "Nothing, unless it prepares what the trainer needs; then put that into the image (ENV, RUN)."
        yield note("image-entrypoint", "image.ref", message, fix)


def _check_maxtext(ref: str, contents: ImageContents, run: Run) -> Iterator[Problem]:
    version = contents.packages.get("maxtext")
    named = run.spec.image.maxtext
    layout = release(named).layout
    if version and version != named:
        yield maxtext_differs(version, run)
    elif contents.layout not in (None, layout):
        message = (
            f"{ref} has MaxText's layout of {contents.layout} releases, and the workload's release, {named}, has the"
            f" {layout} one: the trainer's module would not be found."
        )
        fix = "Set image.maxtext to the release in the image, or use another image."
        yield IMAGE_MAXTEXT_DIFFERS.error("image.maxtext", message, fix)
    if contents.device not in (None, "tpu"):
        message = f"{ref} was built for {contents.device} (ENV_DEVICE): it has no libtpu."
        fix = "Build it with DEVICE=tpu, or use another image."
        yield IMAGE_DEVICE.error("image.ref", message, fix)
    if contents.workflow == "pre-training":
        message = f"{ref} was built for pre-training (ENV_WORKFLOW): it lacks Tunix, which the SFT trainer imports."
        fix = "Build it with WORKFLOW=post-training, or use another image."
        yield IMAGE_DEVICE.error("image.ref", message, fix)


def _check_package_releases(ref: str, contents: ImageContents, run: Run) -> Iterator[Problem]:
    named = run.spec.image.maxtext
    for name, oldest in release(named).requires.items():
        has = contents.packages.get(name)
        if has and older(has, oldest):
            message = f"{ref} has {name} {has}; MaxText {named} requires {oldest} or later."
            fix = f"Build the image with {name}>={oldest}, or use the MaxText release that it was made for."
            yield IMAGE_PACKAGE_OLD.error("image.ref", message, fix)


def _check_pathways_jax(contents: ImageContents, run: Run) -> Iterator[Problem]:
    jax = contents.packages.get("jax")
    servers = {"proxy_image": run.servers.proxy_image, "server_image": run.servers.server_image}
    for name, ref in servers.items():
        of_server = jax_of_tag(ref) if ref else None
        if jax and of_server and not same_minor(jax, of_server):
            message = f"{ref} is for JAX {of_server}, and the image has JAX {jax}: proxy, workers and JAX must match."
            fix = f"Use the tag jax-{jax} for pathways.{name}, here or in the place, or an image with JAX {of_server}."
            yield PATHWAYS_JAX_DIFFERS.error(f"pathways.{name}", message, fix)

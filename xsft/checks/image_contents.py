"""Check the image's configuration in its registry: it exists, is for TPU hosts, and contains what the run needs. Pure.

A version is compared only if the image states it; an image that states none gets a note that its contents are unknown.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from xsft.base.acceptance import LateProblem
from xsft.base.problems import Problem, note
from xsft.catalog.releases import release
from xsft.checks.image import maxtext_differs
from xsft.image.contents import (
    ImageConfiguration,
    ImageContents,
    ImageLook,
    contents_of,
    jax_of_tag,
    older,
    same_minor,
)
from xsft.image.recipe import PACKAGES_LABEL, PLATFORM
from xsft.spec.resolve import Run

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
    version, named = contents.packages.get("maxtext"), run.spec.image.maxtext
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

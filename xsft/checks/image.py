"""Check the container image: it is named, and pinned so that later pulls get the same one. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from xsft.base.problems import Problem, error, warning
from xsft.checks.facts import Facts
from xsft.image.recipe import registry_of_repository
from xsft.image.reference import HUB, is_pinned, is_untagged, legacy_warning, parse_image_name, tag_of
from xsft.spec.base import Keys
from xsft.spec.facts import ImageFacts
from xsft.spec.resolve import Run, named_ref

HUB_PULLS = 100
"""Pulls in six hours that Docker Hub grants to an address without a login; behind Cloud NAT all hosts share a few
addresses. source: docs.docker.com/docker-hub/usage/pulls
"""


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
    image, hosts = run.spec.image, run.slice.hosts * run.num_slices if run.slice else 0
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

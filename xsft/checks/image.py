"""The container image: named, and the same one tomorrow. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xsft.facts import Facts
from xsft.problems import Problem, error, warning
from xsft.spec.base import Value
from xsft.spec.resolve import Run


def check(run: Run, keys: Mapping[str, Value], facts: Facts) -> Iterator[Problem]:
    """`image-missing`, `image-untagged`, `image-not-pinned`."""
    del keys, facts
    ref = run.spec.image.ref
    if run.spec.target != "xpk":
        return
    if ref is None:
        message = "No image: xpk would pack this folder onto python:3.10 instead."
        fix = "Give image.ref, e.g. us-docker.pkg.dev/my-project/xsft/post-training@sha256:…."
        yield error("image-missing", "image.ref", message, fix)
    elif is_untagged(ref):
        fix = "Add the digest (@sha256:…), or a tag."
        yield error("image-untagged", "image.ref", f"{ref} has neither tag nor digest: it means :latest.", fix)
    elif not is_pinned(ref):
        what = "whatever was pushed last" if tag_of(ref) == "latest" else "what it means can change between restarts"
        message = f"{ref} names no digest: {what}."
        yield warning("image-not-pinned", "image.ref", message, "Add the digest the push printed: @sha256:….")


def is_pinned(ref: str) -> bool:
    return "@sha256:" in ref


def tag_of(ref: str) -> str | None:
    """The tag, None where there is none; a registry's port is no tag."""
    name = ref.partition("@")[0].rpartition("/")[2] if "/" in ref else ref.partition("@")[0]
    return name.partition(":")[2] or None


def is_untagged(ref: str) -> bool:
    """Kubernetes would take `:latest`."""
    return not is_pinned(ref) and tag_of(ref) is None

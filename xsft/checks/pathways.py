"""Check Pathways' servers: images, scratch bucket and arguments, which xpk fills with unsuitable defaults. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xsft.base.problems import Problem, error, warning
from xsft.checks.facts import Facts
from xsft.image.reference import is_pinned, tag_of
from xsft.launcher.encoding import pathways_args_problem
from xsft.spec.base import Keys
from xsft.spec.place import PathwaysImages
from xsft.spec.resolve import Run

TEMPLATE_ARGS = frozenset(
    {
        "server_port",
        "gcs_scratch_location",
        "resource_manager_address",
        "node_type",
        "instance_count",
        "instance_type",
    }
)
"""Arguments that xpk's template gives the servers; source: xpk@1.16.0 templates/pathways_workload_create.yaml.j2."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check the servers in Pathways mode; in McJAX warn of a section that has no effect."""
    del keys, facts
    if not run.spec.on_cluster:
        return
    if run.mode.single_controller:
        yield from check_servers(run.servers)
        yield from _check_pathways_args(run)
    elif run.spec.pathways is not None:
        message = f"The pathways section has no effect in {run.mode.value} ({run.mode.reason})."
        yield error("pathways-section-unused", "pathways", message, "Set mode: pathways, or remove the section.")


def check_servers(servers: PathwaysImages) -> Iterator[Problem]:
    """Yield the problems of the images and the scratch bucket."""
    images = {"proxy_image": servers.proxy_image, "server_image": servers.server_image}
    missing = [name for name, ref in images.items() if ref is None]
    if missing:
        message = f"No {' and '.join(missing)}: xpk would use :latest, which may change at any time."
        fix = "Set pathways.proxy_image and pathways.server_image, here or in the place, with the tag of your JAX."
        yield error("pathways-image-missing", "pathways", message, fix)
    for name, ref in images.items():
        if ref is not None and not is_pinned(ref) and tag_of(ref) in (None, "latest"):
            message = f"{ref} is the image pushed last; proxy, workers and JAX must have matching versions."
            fix = "Use the tag of your JAX, e.g. :jax-0.11.0."
            yield warning("pathways-images-unpinned", f"pathways.{name}", message, fix)
    refs = [ref for ref in (servers.proxy_image, servers.server_image) if ref is not None and not is_pinned(ref)]
    tags = [tag_of(ref) for ref in refs]
    if len(refs) == 2 and tags[0] != tags[1]:
        message = f"Proxy and server images have different tags, {tags[0]} and {tags[1]}: their versions must match."
        yield warning("pathways-images-differ", "pathways", message, "Use images of the same release.")
    if servers.scratch is None:
        message = "No scratch bucket: xpk's default, gs://cloud-pathways-staging, is Google's own."
        fix = "Set pathways.scratch, here or in the place: gs://my-bucket/pathways."
        yield error("pathways-scratch-missing", "pathways.scratch", message, fix)


def _check_pathways_args(run: Run) -> Iterator[Problem]:
    section = run.spec.pathways
    arguments: dict[str, Iterable[str]] = {"xla_flags": run.spec.xla_flags}
    if section is not None:
        sections = {
            "server_args": section.server_args,
            "proxy_args": section.proxy_args,
            "worker_args": section.worker_args,
        }
        arguments |= {f"pathways.{name}": tokens for name, tokens in sections.items()}
    for section_key, tokens in arguments.items():
        for index, token in enumerate(tokens):
            where = f"{section_key}.{index}"
            name = token.removeprefix("--").partition("=")[0]
            if (why := pathways_args_problem(token)) is not None:
                fix = "Write one --name=value per list item, without spaces or quotes."
                yield error("pathways-args", where, f"{why}.", fix, kind="unrenderable")
            elif name in TEMPLATE_ARGS:
                message = f"xpk already sets --{name} for the servers; a second value conflicts with it."
                yield error("pathways-args-reserved", where, message, "Remove it.")
            elif name == "num_elastic_slices":
                message = f"--{name} is for elastic training, which MaxText's SFT trainer does not support."
                yield error(
                    "refused-elastic", where, message, "Remove it; restarts.max resumes from the last checkpoint."
                )

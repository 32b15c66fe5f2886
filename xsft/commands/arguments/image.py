"""The arguments of `xsft image`."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import a_name, add_json
from xsft.image.context import ACCEPTABLE

ACTIONS = {
    "build": "build what is missing, on this machine",
    "push": "build what is missing, push it, and write its digest into images/NAME.lock.json",
    "list": "list the images in the engine and in the registry",
    "show": "show what would be built, and the lock; build nothing",
}

EPILOG = (
    "An image is a folder under images/: Dockerfile builds the dependencies (deps-HASH), code.Dockerfile the code "
    "on top (code-HASH). The hashes are computed from the content; an existing image is not built again. A "
    "workload names it by `image: {name: post_training}`. Only `push` writes a file: the lock."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    said = "; ".join(f"{name}: {what}" for name, what in ACTIONS.items())
    parser.add_argument("action", choices=tuple(ACTIONS), help=said)
    parser.add_argument(
        "--image", type=a_name, default="post_training", metavar="NAME", help="folder (default: %(default)s)"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--registry", type=a_name, metavar="REPO", help="e.g. us-docker.pkg.dev/my-project/xsft, without image or tag"
    )
    where.add_argument(
        "--place",
        type=a_name,
        metavar="NAME",
        help="use the registry of this place of places.yaml (default: its only place)",
    )
    _add_content(parser)
    parser.add_argument(
        "--pip-config", type=a_name, metavar="FILE", help="package index and its login, as in pip.conf; never stored"
    )
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        choices=ACCEPTABLE,
        metavar="ID",
        help="send the build context even if it is large (accepts image-context-large)",
    )
    parser.add_argument(
        "--create", action="store_true", help="create the Artifact Registry repository if it is missing"
    )
    add_json(parser)


def _add_content(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide the image's content."""
    sources = "pypi, git+URL@COMMIT, or a folder"
    parser.add_argument(
        "--maxtext", type=a_name, metavar="VERSION", help="MaxText release (default: the one xsft builds)"
    )
    parser.add_argument(
        "--maxtext-source", type=a_name, default="pypi", metavar="SOURCE", help=f"{sources} (default: %(default)s)"
    )
    parser.add_argument(
        "--tunix-source", type=a_name, default="pypi", metavar="SOURCE", help=f"{sources} (default: %(default)s)"
    )
    parser.add_argument(
        "--base", type=a_name, metavar="IMAGE", help="base image with CPython 3.12; default: the Dockerfile's"
    )
    parser.add_argument(
        "--update-base", action="store_true", help="resolve the base's tag again instead of using the lock"
    )
    parser.add_argument("--vllm", type=a_name, metavar="REQUIREMENT", help="pip requirement; SFT does not need vLLM")
    parser.add_argument(
        "--code",
        type=a_name,
        action="append",
        default=[],
        metavar="DIR",
        help="folder to put on PYTHONPATH in the image (repeatable)",
    )
    parser.add_argument(
        "--arg", action="append", default=[], metavar="NAME=VALUE", help="additional build argument (repeatable)"
    )

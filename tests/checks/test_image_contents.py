"""Contents of an image by its configuration, compared with the run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stories import intent_of, spec_of, varied
from xsft.base.problems import Problem
from xsft.checks.image_contents import check_image_contents
from xsft.image.contents import ImageConfiguration, ImageLook, contents_of

REF = "us-docker.pkg.dev/p/r/image:v1"
OURS = {"dev.xsft.maxtext.version": "0.2.5", "dev.xsft.packages": "jax==0.11.0 libtpu==0.0.44 google-tunix==0.1.7"}
MAXTEXT = {
    "ENV_JAX_VERSION": "0.11.0",
    "ENV_LIBTPU_VERSION": "NONE",
    "ENV_DEVICE": "tpu",
    "ENV_WORKFLOW": "post-training",
    "MAXTEXT_PKG_DIR": "/deps/src/maxtext",
}
"""source: maxtext@0.2.4 src/dependencies/dockerfiles/maxtext_tpu_dependencies.Dockerfile."""


def said(ref: str = REF, *, story: str = "deepseek_ultrachat", trains: bool = True, **told: Any) -> list[Problem]:
    configuration = ImageConfiguration(**{"platforms": ("linux/amd64",), "size": 2**32, **told})
    look = ImageLook(ref=ref, status="there", configuration=configuration)
    return list(check_image_contents(look, intent_of(spec_of(story)).run, trains=trains))


@pytest.mark.parametrize(
    "told",
    [{"labels": OURS}, {"env": MAXTEXT}, {"labels": OURS, "entrypoint": ("/bin/bash",)}],
    ids=["own image", "MaxText's image", "own image with entrypoint"],
)
def test_matching_image_has_no_problem(told: dict[str, Any]) -> None:
    assert said(**told) == []


ODD: dict[str, tuple[dict[str, Any], str, str]] = {
    "arm": ({"labels": OURS, "platforms": ("linux/arm64",)}, "image-platform", "TPU hosts are linux/amd64"),
    "large": ({"labels": OURS, "size": 30 * 2**30}, "image-large", "30 GiB compressed"),
    "entrypoint": ({"labels": OURS, "entrypoint": ("/serve", "-v")}, "image-entrypoint", "/serve -v, does not run"),
    "unknown": ({}, "image-contents-unknown", "are unknown"),
    "another MaxText": (
        {"labels": {**OURS, "dev.xsft.maxtext.version": "0.2.4"}},
        "image-maxtext-differs",
        "The image has MaxText 0.2.4",
    ),
    "the layout of 2025": (
        {"env": {**MAXTEXT, "MAXTEXT_PKG_DIR": "/deps/src/MaxText"}},
        "image-maxtext-differs",
        "layout of legacy releases",
    ),
    "for GPUs": ({"env": {**MAXTEXT, "ENV_DEVICE": "gpu"}}, "image-device", "built for gpu"),
    "pre-training": ({"env": {**MAXTEXT, "ENV_WORKFLOW": "pre-training"}}, "image-device", "lacks Tunix"),
    "an old libtpu": (
        {"labels": {**OURS, "dev.xsft.packages": "jax==0.11.0 libtpu==0.0.41"}},
        "image-package-old",
        "has libtpu 0.0.41; MaxText 0.2.5 requires 0.0.44",
    ),
    "old transformers": (
        {"env": MAXTEXT, "made_by": ("RUN pip install transformers==4.57.3 # buildkit",)},
        "image-package-old",
        "has transformers 4.57.3",
    ),
    "an old Tunix": (
        {"env": MAXTEXT, "made_by": ("RUN pip install 'google-tunix[prod]==0.1.3' # buildkit",)},
        "image-package-old",
        "has google-tunix 0.1.3",
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_mismatch_of_the_image_gives_one_problem(case: str) -> None:
    told, expected, words = ODD[case]
    (problem,) = said(**told)
    assert problem.id == expected
    assert words in problem.message


def test_pathways_servers_of_another_jax_are_reported() -> None:
    labels = {**OURS, "dev.xsft.packages": "jax==0.12.1 libtpu==0.0.50"}
    problems = said(labels=labels)
    assert [(p.id, p.where) for p in problems] == [
        ("pathways-jax-differs", "pathways.proxy_image"),
        ("pathways-jax-differs", "pathways.server_image"),
    ]
    assert "is for JAX 0.11.0, and the image has JAX 0.12.1" in problems[0].message
    assert said(labels={**OURS, "dev.xsft.packages": "jax==0.11.7"}) == [], "a patch release"
    assert said(labels=labels, story="deepseek_ultrachat_mcjax") == [], "it has no servers"
    assert said(labels=labels, trains=False) == [], "nor has a conversion"


@pytest.mark.parametrize(
    ("ref", "jax"),
    [
        ("us-docker.pkg.dev/cloud-tpu-images/jax-ai-image/tpu:jax0.8.1-rev1", "0.8.1"),
        ("us-docker.pkg.dev/cloud-tpu-v2-images/pathways/server:jax-0.11.0", "0.11.0"),
        ("us-docker.pkg.dev/cloud-tpu-v2-images/pathways/server:20250819-jax_0.7.0", "0.7.0"),
        ("us-docker.pkg.dev/p/r/image:latest", None),
        ("us-docker.pkg.dev/p/r/image:v1.2.3", None),
    ],
)
def test_jax_version_is_read_from_the_tag(ref: str, jax: str | None) -> None:
    assert contents_of(ImageConfiguration(platforms=()), ref).packages.get("jax") == jax


def test_unread_image_is_a_note_with_the_login_that_was_used() -> None:
    run = intent_of(varied(spec_of("deepseek_ultrachat"), {})).run
    look = ImageLook(ref=REF, status="unread", asked_with="no login", why="There is no login for it here.")
    (problem,) = check_image_contents(look, run, trains=True)
    assert (problem.id, problem.severity) == ("image-not-read", "note")
    assert problem.message.startswith("Unknown: whether the image")
    assert "asked with no login" in problem.message

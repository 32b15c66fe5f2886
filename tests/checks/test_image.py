"""An image that means the same tomorrow."""

from __future__ import annotations

import pytest

from tests.checks.factory import DROP, ids, spec
from xsft.checks.image import check
from xsft.image.reference import tag_of

DIGEST = "@sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("registry.example.com/team/image" + DIGEST, set()),
        ("registry.example.com/team/image:v1" + DIGEST, set()),
        ("registry.example.com/team/image:v1", {"image-not-pinned"}),
        ("registry.example.com/team/image:latest", {"image-not-pinned"}),
        ("registry.example.com/team/image", {"image-untagged"}),
        ("localhost:5000/image", {"image-untagged"}),
        ("localhost:5000/image:v1", {"image-not-pinned"}),
        ("python", {"image-untagged"}),
        ("python:3.12", {"image-not-pinned"}),
        (DROP, {"image-missing"}),
    ],
)
def test_an_image_names_its_digest(ref: object, expected: set[str]):
    assert ids(check, spec(image={"ref": ref})) == expected
    assert ids(check, spec(image={"ref": ref}, target="local")) == set()


def test_a_port_is_no_tag():
    assert tag_of("localhost:5000/image") is None
    assert tag_of("localhost:5000/image:v1" + DIGEST) == "v1"

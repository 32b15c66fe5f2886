"""Files of a build context that are refused, and files that give warnings."""

from __future__ import annotations

import time

import pytest

from tests.image.materials import file
from xsft.image.context import accept_size, arguments, context_problems, largest, secret_in
from xsft.image.model import ContextFile

BEGIN = b"-----BEGIN PRIVATE" + b" KEY-----\n"


def link(path: str, target: str) -> ContextFile:
    return ContextFile(path=path, kind="link", target=target, dangling=True)


def test_each_broken_link_is_reported() -> None:
    found = context_problems((link("code/a", "/etc/passwd"), link("code/b", "../../x"), file("ok")))
    assert [p.id for p in found] == ["image-context-link"] * 2
    assert "is absolute" in found[0].message
    assert "code/b is a link to ../../x, which points outside the context" in found[1].message


def test_large_context_is_an_error_with_its_largest_files_and_can_be_accepted() -> None:
    files = tuple(file(f"{n}.bin", size=n * 2**30) for n in range(1, 8))
    (found,) = context_problems(files)
    assert found.id == "image-context-large"
    assert "30.1 GB" in found.message
    assert "7.bin (7.52 GB), 6.bin" in found.message
    assert "1.bin" not in found.message
    assert [p.severity for p in accept_size((found,), ["image-context-large"])] == ["warning"]
    assert accept_size((found,), ["image-context-link"]) == (found,)
    assert context_problems(files[:1], limit=2**30) == ()


@pytest.mark.parametrize(
    "name", [".env", "code/.env.local", "maxtext/.netrc", "code/hf_token", "code/id_rsa", "kubeconfig"]
)
def test_files_named_like_secrets_are_refused_and_cannot_be_accepted(name: str) -> None:
    found = context_problems((file(name),))
    assert [p.id for p in found] == ["image-context-secret"]
    assert accept_size(found, ["image-context-secret"]) == found


@pytest.mark.parametrize("name", [".env.example", "code/tokens.py", "tokenizer.json", "code/environment", "ca.pem"])
def test_names_similar_to_those_of_secrets_pass(name: str) -> None:
    assert context_problems((file(name),)) == ()


def test_files_that_contain_secrets_are_reported_without_the_value() -> None:
    (found,) = context_problems((file("code/a.json", secret="a service account's key"),))
    assert "a service account's key" in found.message


def test_largest_returns_the_largest_regular_files() -> None:
    assert [f.path for f in largest((file("a", b"1"), file("b", b"22"), file("c", b"")), count=5)] == ["b", "a"]


def test_dockerfile_arguments_have_their_first_default() -> None:
    text = """\
# ARG NOT=1
ARG BASE_IMAGE=python:3.12-slim
FROM ${BASE_IMAGE}
ARG BASE_IMAGE
arg A B="two words" C='x'
  ARG D=  # nothing
RUN echo ARG E=1
"""
    assert arguments(text) == {"BASE_IMAGE": "python:3.12-slim", "A": None, "B": "two words", "C": "x", "D": None}


def test_text_similar_to_a_key_is_scanned_in_linear_time() -> None:
    """Each of these has many ways to be read as the headers of a key."""
    started = time.process_time()
    for almost in (b"a: " * 10_000, b"a: b\n" * 10_000, b"a: \\r\\n" * 10_000, b" \n" * 10_000, BEGIN * 1000):
        assert secret_in(BEGIN + almost + b"!") == ""
    assert time.process_time() - started < 5

"""Files of a build context that are refused, and files that give warnings."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from docker.utils.build import PatternMatcher
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.daemon import Engine
from tests.image.materials import file
from xsft.base.problems import Problem
from xsft.image.context import (
    ContextFile,
    accept_problems,
    context_problems,
    dockerfile_arguments,
    ignore_matcher,
    largest,
    secret_in,
)

BEGIN = b"-----BEGIN PRIVATE" + b" KEY-----\n"


def problems_of(*files: ContextFile, **options: Any) -> tuple[Problem, ...]:
    return tuple(context_problems(files, **{"secrets": {}, **options}))


def link(path: str, target: str) -> ContextFile:
    return ContextFile(path=path, kind="link", target=target, dangling=True)


def test_each_broken_link_is_reported() -> None:
    problems = problems_of(link("code/a", "/etc/passwd"), link("code/b", "../../x"), file("ok"))
    assert [p.id for p in problems] == ["image-context-link"] * 2
    assert "is absolute" in problems[0].message
    assert "code/b is a link to ../../x, which points outside the context" in problems[1].message


def test_large_context_is_an_error_with_its_largest_files_and_can_be_accepted() -> None:
    files = tuple(file(f"{n}.bin", size=n * 2**30) for n in range(1, 8))
    (problem,) = problems_of(*files)
    assert problem.id == "image-context-large"
    assert "30.1 GB" in problem.message
    assert "7.bin (7.52 GB), 6.bin" in problem.message
    assert "1.bin" not in problem.message
    assert [p.severity for p in accept_problems((problem,), ["image-context-large"])] == ["warning"]
    assert accept_problems((problem,), ["image-context-link"]) == (problem,)
    assert problems_of(files[0], limit=2**30) == ()


@pytest.mark.parametrize(
    "name", [".env", "code/.env.local", "maxtext/.netrc", "code/hf_token", "code/id_rsa", "kubeconfig"]
)
def test_files_named_like_secrets_are_refused_and_cannot_be_accepted(name: str) -> None:
    problems = problems_of(file(name))
    assert [p.id for p in problems] == ["image-context-secret"]
    assert accept_problems(problems, ["image-context-secret"]) == problems


@pytest.mark.parametrize("name", [".env.example", "code/tokens.py", "tokenizer.json", "code/environment", "ca.pem"])
def test_names_similar_to_those_of_secrets_pass(name: str) -> None:
    assert problems_of(file(name)) == ()


def test_files_that_contain_secrets_are_reported_without_the_value() -> None:
    (problem,) = problems_of(file("code/a.json"), secrets={"code/a.json": "a service account's key"})
    assert "a service account's key" in problem.message


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
    assert dockerfile_arguments(text) == {
        "BASE_IMAGE": "python:3.12-slim",
        "A": None,
        "B": "two words",
        "C": "x",
        "D": None,
    }


def test_text_similar_to_a_key_is_scanned_in_linear_time() -> None:
    """Each of these has many ways to be read as the headers of a key."""
    started = time.process_time()
    for almost in (b"a: " * 10_000, b"a: b\n" * 10_000, b"a: \\r\\n" * 10_000, b" \n" * 10_000, BEGIN * 1000):
        assert secret_in(BEGIN + almost + b"!") == ""
    assert time.process_time() - started < 5


RULES = ("*", "!requirements.txt", "**/__pycache__", "a/*", "!a/b", "**/*.pyc", "a/**", "/x", "a?c", "[ab]c", "a/**/z")
PATHS = st.lists(st.text("abcxz.", min_size=1, max_size=3), min_size=1, max_size=4).map("/".join)


@settings(max_examples=300)
@given(st.lists(st.sampled_from([*RULES, "**", "b*", "!a", "x.z"]), max_size=5), PATHS)
def test_any_path_is_ignored_as_the_docker_sdk_ignores_it(rules: list[str], path: str) -> None:
    if path in {".", ".."} or "." in path.split("/") or ".." in path.split("/"):
        return
    assert ignore_matcher("\n".join(rules))(path) == bool(PatternMatcher(rules).matches(path))


def test_a_folder_that_is_included_again_is_included_with_its_files() -> None:
    """As the engine does it; the SDK forgets the files."""
    assert not ignore_matcher("*\n!**/c")("c/a")


def test_comments_blanks_and_a_byte_order_mark_are_no_rules() -> None:
    ignored = ignore_matcher("\ufeff# *\n\n  \n./a/\n!a")
    assert not ignored("a")
    assert not ignored("b")
    assert ignore_matcher("#x\na")("a")


UNLIKE_THE_SDK = {
    "**/.cache": (
        "a/.cache/x",
        "a/b/.cache/x",
        "a/.cachex/y",
    ),  # the SDK looks at as many parents as the rule has parts
    "Data": ("Data/x", "data/x"),  # the SDK takes them for the same
    "**/keep/*": ("a/b/keep/x/y", "a/keep"),
    "!a/.cache/mine.py": ("a/.cache/mine.py", "data/mine.py"),
}
"""Rules in this order, and paths that they are about."""


def test_docker_sdk_differs_from_docker_for_some_rules() -> None:
    """Why xsft has a matcher of its own: docker 7.1.0, utils/build.py `PatternMatcher.matches`, utils/fnmatch.py."""
    assert ignore_matcher("**/.cache")("a/b/.cache/x")
    assert not PatternMatcher(["**/.cache"]).matches("a/b/.cache/x")
    assert not ignore_matcher("Data")("data/x")
    assert PatternMatcher(["Data"]).matches("data/x")


@pytest.mark.engine
def test_real_build_sends_the_same_files(engine: Engine, tmp_path: Path) -> None:
    paths = sorted({path for paths in UNLIKE_THE_SDK.values() for path in paths})
    for path in paths:
        (tmp_path / "context" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "context" / path).write_text(path)
    rules = "\n".join(UNLIKE_THE_SDK)
    (tmp_path / "context" / ".dockerignore").write_text(f"{rules}\nDockerfile\n.dockerignore\n")
    (tmp_path / "context" / "Dockerfile").write_text("FROM scratch\nCOPY . /\n")
    engine.docker("build", "--output", str(tmp_path / "out"), str(tmp_path / "context"))
    sent_files = sorted(
        str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()
    )
    assert sent_files == [path for path in paths if not ignore_matcher(rules)(path)]
    assert "data/x" in sent_files
    assert "a/b/.cache/x" not in sent_files

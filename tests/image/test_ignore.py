"""The matcher of .dockerignore agrees with Docker's, and with the SDK's wherever that one agrees with Docker."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from docker.utils.build import PatternMatcher
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.daemon import Engine
from xsft.image.ignore import ignore_matcher

RULES = ("*", "!requirements.txt", "**/__pycache__", "a/*", "!a/b", "**/*.pyc", "a/**", "/x", "a?c", "[ab]c", "a/**/z")
PATHS = st.lists(st.text("abcxz.", min_size=1, max_size=3), min_size=1, max_size=4).map("/".join)


def test_rules_in_any_order_match_as_the_docker_sdk_matches_them() -> None:
    paths = ("requirements.txt", "a", "a/b", "a/b/c", "x", "abc", "ac", "bc", "a/z", "a/q/z", "f.pyc", "d/f.pyc")
    for rules in permutations(RULES, 3):
        ours, theirs = ignore_matcher("\n".join(rules)), PatternMatcher(list(rules))
        assert [path for path in paths if ours(path)] == [path for path in paths if theirs.matches(path)], rules


@given(st.lists(st.sampled_from([*RULES, "**", "!**/c", "b*", "!a", "x.z"]), max_size=5), PATHS)
def test_any_path_is_ignored_as_the_docker_sdk_ignores_it(rules: list[str], path: str) -> None:
    if path in {".", ".."} or "." in path.split("/") or ".." in path.split("/"):
        return
    assert ignore_matcher("\n".join(rules))(path) == bool(PatternMatcher(rules).matches(path))


def test_comments_blanks_and_a_byte_order_mark_are_no_rules() -> None:
    ignored = ignore_matcher("\ufeff# *\n\n  \n./a/\n", "!a")
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
    taken = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert taken == [path for path in paths if not ignore_matcher(rules)(path)]
    assert "data/x" in taken
    assert "a/b/.cache/x" not in taken

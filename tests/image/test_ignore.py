"""The matcher agrees with the Docker SDK's own."""

from __future__ import annotations

from itertools import permutations

from docker.utils.build import PatternMatcher
from hypothesis import given
from hypothesis import strategies as st

from xsft.image.ignore import ignoring

RULES = ("*", "!requirements.txt", "**/__pycache__", "a/*", "!a/b", "**/*.pyc", "a/**", "/x", "a?c", "[ab]c", "a/**/z")
PATHS = st.lists(st.text("abcxz.", min_size=1, max_size=3), min_size=1, max_size=4).map("/".join)


def test_rules_in_any_order_mean_what_docker_takes_them_for() -> None:
    paths = ("requirements.txt", "a", "a/b", "a/b/c", "x", "abc", "ac", "bc", "a/z", "a/q/z", "f.pyc", "d/f.pyc")
    for rules in permutations(RULES, 3):
        ours, theirs = ignoring("\n".join(rules)), PatternMatcher(list(rules))
        assert [path for path in paths if ours(path)] == [path for path in paths if theirs.matches(path)], rules


@given(st.lists(st.sampled_from([*RULES, "**", "!**/c", "b*", "!a", "x.z"]), max_size=5), PATHS)
def test_any_path_is_judged_as_docker_judges_it(rules: list[str], path: str) -> None:
    if path in {".", ".."} or "." in path.split("/") or ".." in path.split("/"):
        return
    assert ignoring("\n".join(rules))(path) == bool(PatternMatcher(rules).matches(path))


def test_comments_blanks_and_a_byte_order_mark_are_no_rules() -> None:
    ignored = ignoring("\ufeff# *\n\n  \n./a/\n", "!a")
    assert not ignored("a")
    assert not ignored("b")
    assert ignoring("#x\na")("a")

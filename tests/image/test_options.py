"""Wrong build options are reported before the build starts, with the allowed values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.image.materials import DECLARED, OPTIONS
from tests.replacing import replace
from xsft.base.problems import Problem
from xsft.image.options import (
    BuildOptions,
    argument_problems,
    combine_options,
    option_problems,
    option_words,
)

REQUIREMENTS = (
    "vllm",
    "vllm==0.11.0",
    "vllm-tpu==0.11.0rc1+cu12.local",
    "vllm[tpu, extra] >=0.11,<0.12, !=0.11.3",
    "vllm~=0.11",
    "vllm==1!2.*",
    "vllm @ https://example.com/o/vllm-1-py3-none-any.whl#sha256=0a",
    "tunix@git+https://example.com/o/tunix.git@0123456789abcdef",
)


def problems_of(image: str = "mine", registry: str | None = None, **options: Any) -> tuple[Problem, ...]:
    return tuple(option_problems(BuildOptions(**options), image=image, registry=registry))


@pytest.mark.parametrize(
    ("changes", "id", "says"),
    [
        ({"maxtext": "0.2.6"}, "image-maxtext", "Did you mean"),
        ({"maxtext": "9"}, "image-maxtext", "Known: 0.1.0"),
        ({"maxtext": "0.2.4"}, "image-maxtext", "cannot be built here"),
        ({"maxtext": "tutorial-v1.5.0"}, "image-maxtext", "legacy layout"),
        ({"registry": "127.0.0.1:5000/team:v1"}, "image-reference", "remove :v1"),
        ({"registry": "team images"}, "image-reference", "a space"),
        ({"registry": "gcr.io/my-project"}, "image-legacy-registry", "shut down"),
        ({"base": "python;id"}, "image-reference", "';'"),
        ({"image": "../etc"}, "image-name", "under images/"),
        ({"maxtext_source": "git+https://example.com/m"}, "image-source", "has no commit"),
        ({"tunix_source": "git+https://me:pw@example.com/m@main"}, "image-source", "a login"),
        ({"args": {"DEPS_IMAGE": "x"}}, "image-argument", "is set by xsft"),
        ({"args": {"RUN_AS": "me; id"}}, "image-argument", "is not a user"),
        ({"args": {"PIP_TOKEN": "x"}}, "image-argument", "history"),
        ({"maxtext": "0.2.5; rm"}, "image-maxtext", "Known: 0.1.0"),
        ({"maxtext_source": "git+https://example.com/m;id@main"}, "image-source", "is not a valid URL"),
        ({"maxtext_source": "git+https://example.com/m@main$(id)"}, "image-source", "is not a valid URL"),
        ({"tunix_source": "git+https://example.com/m @main"}, "image-source", "is not a valid URL"),
        ({"vllm": "a; rm"}, "image-argument", "not a pip requirement"),
        ({"vllm": "vllm==1 && id"}, "image-argument", "not a pip requirement"),
        ({"vllm": "vllm==`id`"}, "image-argument", "not a pip requirement"),
        ({"vllm": "--index-url=https://example.com"}, "image-argument", "not a pip requirement"),
        ({"vllm": "vllm @ https://me:pw@example.com/v.whl"}, "image-argument", "a login"),
        ({"args": {"TUNIX_REQUIREMENT": "a|b"}}, "image-argument", "TUNIX_REQUIREMENT"),
        ({"args": {"APT_PACKAGES": "git; id"}}, "image-argument", "'git;' is not a Debian package"),
        ({"args": {"APT_PACKAGES": "git -oDebug=1"}}, "image-argument", "'-oDebug=1' is not a Debian package"),
    ],
)
def test_wrong_options_are_reported(changes: dict[str, Any], id: str, says: str) -> None:
    (problem,) = problems_of(**changes)
    assert problem.id == id
    assert says in f"{problem.message} {problem.fix}"


def test_valid_options_have_no_problems() -> None:
    good = {
        "maxtext_source": "git+https://example.com/o/m@1a2b",
        "base": "python:3.12",
        "args": {"APT_PACKAGES": "git"},
    }
    assert problems_of(**good) == ()
    for requirement in REQUIREMENTS:
        assert problems_of(vllm=requirement) == ()
        assert problems_of(args={"MAXTEXT_REQUIREMENT": requirement}) == ()
    assert problems_of(args={"APT_PACKAGES": "git  libc6:amd64 g++=4:12.2.0-3 tzdata"}) == ()
    assert problems_of(maxtext_source="git+ssh://git@example.com/o/m@main") == ()


def test_unknown_build_argument_is_reported_with_the_known_ones() -> None:
    problems = tuple(argument_problems(replace(OPTIONS, vllm="vllm==1", args={"BASE_IMAG": "x"}), DECLARED))
    assert [p.id for p in problems] == ["image-argument"] * 2
    assert "VLLM_REQUIREMENT" in problems[0].message
    assert "Did you mean BASE_IMAGE?" in problems[1].message
    assert not [*argument_problems(replace(OPTIONS, base="python:3.13", args={"RUN_AS": "1"}), DECLARED)]


@given(st.text(), st.sampled_from(";|&$`\"'\\(){}\n\t\0"), st.sampled_from(REQUIREMENTS))
def test_shell_metacharacters_in_requirements_are_refused(after: str, sign: str, requirement: str) -> None:
    options: list[dict[str, Any]] = [
        {"vllm": f"{requirement}{sign}{after}"},
        {"args": {"MAXTEXT_REQUIREMENT": f"{requirement}{sign}{after}"}},
        {"args": {"APT_PACKAGES": f"git{sign}{after}"}},
        {"tunix_source": f"git+https://example.com/o/t@main{sign}{after}"},
    ]
    assert all(problems_of(**option) for option in options)


LAST = BuildOptions(code=("hooks",), base="python:3.12", args={"A": "1", "B": "2"})


def test_options_of_the_last_push_are_repeated_and_a_given_one_replaces_its_own() -> None:
    assert combine_options(BuildOptions(), LAST) == LAST
    other = combine_options(BuildOptions(code=("other", "more"), maxtext_source="../fork"), LAST)
    assert other == replace(LAST, code=("other", "more"), maxtext_source="../fork")


def test_option_words_are_a_command_line_of_what_is_not_the_default() -> None:
    assert option_words(BuildOptions(maxtext="0.2.5", maxtext_source="pypi")) == ""
    assert option_words(LAST) == "--base=python:3.12 --code=hooks --arg=A=1 --arg=B=2"
    assert option_words(replace(LAST, code=("a b",), base=None, args={})) == "'--code=a b'"

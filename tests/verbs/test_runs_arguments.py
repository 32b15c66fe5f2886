from __future__ import annotations

import argparse

import pytest

from xsft.verbs.arguments import add_settings
from xsft.verbs.runs_arguments import add_where


def where(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_where(parser)
    return parser.parse_args(argv)


@pytest.mark.parametrize("option", ["--place", "--context", "--namespace"])
@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_place_context_or_namespace_is_refused(option: str, empty: str) -> None:
    with pytest.raises(argparse.ArgumentError, match="empty value"):
        where(option, empty)


@pytest.mark.parametrize("text", ["a b", "A", "a/../b", "-a", "a-", "ü", "a" * 64, "a\n"])
def test_an_invalid_namespace_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentError, match="is not a namespace"):
        where(f"--namespace={text}")


@pytest.mark.parametrize("text", ["default", "a", "team-1", "1a", "a" * 63])
def test_a_given_namespace_is_used_unchanged(text: str) -> None:
    assert where("--namespace", text, "--context", "gke_p_z_c@x").namespace == text


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_run_name_is_refused(empty: str) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_settings(parser)
    with pytest.raises(argparse.ArgumentError, match="empty value"):
        parser.parse_args(["--run-name", empty])
    assert parser.parse_args(["--run-name", "one"]).run_name == "one"

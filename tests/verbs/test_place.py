"""`xsft place show`: which cluster is meant. What it prints of a real cluster: tests/control_plane/test_place.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.inprocess import xsft


@pytest.fixture(autouse=True)
def _no_places_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_several_places_need_a_name(tmp_path: Path) -> None:
    (tmp_path / "places.yaml").write_text("one: {context: a}\ntwo: {context: b}\n")
    done = xsft("place", "show")
    assert done.returncode == 2
    assert "2 places without placeholders exist" in done.stderr
    assert "known: one, two" in done.stderr


def test_place_show_without_any_place_names_the_option() -> None:
    done = xsft("place", "show")
    assert done.returncode == 2
    assert "--context" in done.stderr


def test_an_unknown_place_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "places.yaml").write_text("one: {context: a}\n")
    done = xsft("place", "show", "two")
    assert done.returncode == 2
    assert "Known: one" in done.stderr


def test_name_and_context_exclude_each_other() -> None:
    assert xsft("place", "show", "one", "--context", "a").returncode == 2

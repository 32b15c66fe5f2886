"""Where places.yaml is searched, and how its problems are reported."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from xsft.base.errors import SpecError
from xsft.base.problems import Problem
from xsft.cluster.places import load_places
from xsft.spec.place import Place

MAIN = "main: {project: my-project, zone: us-east5-b, cluster: my-cluster}\n"


def load(start: Path, home: Path, **env: str) -> tuple[dict[str, Place], str | None]:
    return load_places(start, env=env, home=home)


def project(folder: Path, text: str | None = MAIN) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text("")
    if text is not None:
        (folder / "places.yaml").write_text(text)
    return folder


def wrong(tmp_path: Path, text: str) -> tuple[Problem, ...]:
    root = project(tmp_path / "project", text)
    with pytest.raises(SpecError) as caught:
        load(root, tmp_path)
    assert {p.file for p in caught.value.problems} == {str(root / "places.yaml")}
    return caught.value.problems


def test_the_places_file_beside_the_workload_is_first(tmp_path: Path) -> None:
    beside = project(tmp_path / "outer") / "team" / "places.yaml"
    beside.parent.mkdir()
    beside.write_text("mine: {context: c}\n")
    places, file = load(beside.parent, tmp_path)
    assert (list(places), file) == (["mine"], str(beside))


def test_the_places_file_of_the_nearest_project_is_used(tmp_path: Path) -> None:
    outer = project(tmp_path / "outer", "other: {context: c}\n")
    inner = project(outer / "inner")
    (inner / "workloads" / "deep").mkdir(parents=True)
    places, file = load(inner / "workloads" / "deep", tmp_path)
    assert (list(places), file) == (["main"], str(inner / "places.yaml"))
    assert places["main"].cluster == "my-cluster"


@pytest.mark.parametrize("xdg", ["", "relative/is/ignored", "{home}/.config"])
def test_the_users_places_file_is_used_if_the_project_has_none(tmp_path: Path, xdg: str) -> None:
    home = tmp_path / "home"
    config = home / ".config" / "xsft"
    config.mkdir(parents=True)
    (config / "places.yaml").write_text(MAIN)
    root = project(tmp_path / "project", None)
    assert load(root, home, XDG_CONFIG_HOME=xdg.format(home=home))[1] == str(config / "places.yaml")


def test_places_are_empty_without_a_file(tmp_path: Path) -> None:
    assert load(project(tmp_path / "project", None), tmp_path) == ({}, None)


def test_all_problems_are_reported_with_their_key_and_line(tmp_path: Path) -> None:
    problems = wrong(tmp_path, "main:\n  project: my-project\n  zoen: us-east5-b\nb:\n  queue: Bad_Queue\n")
    assert {p.where for p in problems} == {"main.zoen", "b.queue"}
    unknown = next(p for p in problems if p.where == "main.zoen")
    assert "zone" in unknown.message + unknown.fix
    assert "line 3" in unknown.message


def test_a_file_that_is_no_mapping_of_places_is_reported(tmp_path: Path) -> None:
    assert wrong(tmp_path, "- main\n")[0].id == "yaml-not-mapping"
    assert wrong(tmp_path, "main: us-east5-b\n")[0].where == "main"
    assert wrong(tmp_path, MAIN + MAIN)[0].id == "yaml-duplicate-key"
    assert wrong(tmp_path, "")[0].id == "file-empty"


@pytest.mark.parametrize(
    ("make", "id", "words"),
    [
        (lambda file: file.mkdir(), "file-directory", "is a directory"),
        (lambda file: file.symlink_to(file), "file-unreadable", "symbolic links"),
        (lambda file: file.symlink_to("gone"), "file-missing", "a symbolic link to a file that does not exist"),
        (os.mkfifo, "file-not-regular", "is a pipe"),
        (lambda file: file.write_bytes(MAIN.encode("utf-16")), "file-encoding", "UTF-16; a places.yaml must be UTF-8"),
    ],
    ids=["folder", "link to itself", "broken link", "pipe", "UTF-16"],
)
def test_an_unreadable_places_file_is_not_treated_as_missing(
    tmp_path: Path, make: Callable[[Path], object], id: str, words: str
) -> None:
    root = project(tmp_path / "project", None)
    make(root / "places.yaml")
    with pytest.raises(SpecError) as caught:
        load(root, tmp_path)
    (problem,) = caught.value.problems
    assert problem.id == id
    assert words in problem.message
    assert "workload" not in problem.message + problem.fix

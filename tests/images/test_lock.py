"""Promises of images/post_training/: its lock, its build files, and the table that its builder reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xsft.catalog import releases
from xsft.environments.environments import LOCKS, environment_for
from xsft.environments.installed import BuiltEnvironment

FOLDER = Path(__file__).parents[2] / "images" / "post_training"
BUILD_FILES = ("Dockerfile",)


def pins(text: str) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", text, re.MULTILINE))


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


LOCK = pins(read("requirements.txt"))


def test_every_row_of_the_lock_has_a_hash() -> None:
    rows = re.split(r"^(?=[a-z0-9])", read("requirements.txt"), flags=re.MULTILINE)[1:]
    assert len(rows) == len(LOCK) > 100
    assert [row for row in rows if "--hash=sha256:" not in row] == []


def test_the_lock_file_has_the_documented_fields() -> None:
    expected = {"maxtext": releases.DEFAULT, "google-tunix": "0.1.7", "jax": "0.11.0", "libtpu": "0.0.44"}
    assert {name: LOCK[name] for name in expected} == expected
    assert LOCK["jaxlib"] == LOCK["jax"]


def test_lock_is_the_cpu_lock_with_overrides_and_tpu_packages() -> None:
    on_cpu, overrides = environment_for("maxtext").pins, pins(read("overrides.txt"))
    assert {name for name in on_cpu if LOCK.get(name) != on_cpu[name]} == set(overrides)
    assert {name: LOCK[name] for name in overrides} == overrides
    required = pins(read("requirements.in"))
    assert {**on_cpu, **required, **overrides} == LOCK


@pytest.mark.contract
def test_lock_has_the_pins_of_maxtext(maxtext_environment: BuiltEnvironment) -> None:
    site = next(maxtext_environment.folder.glob("lib/python*/site-packages"))
    theirs = pins((site / "dependencies/extra_deps/tpu_post_train_overrides.txt").read_text(encoding="utf-8"))
    assert theirs.keys() >= {"flax", "fsspec", "gcsfs", "jax", "jaxlib", "libtpu", "optax", "qwix"}
    assert {name: LOCK[name] for name in theirs} == theirs


@pytest.mark.parametrize(
    "name", ["requirements.txt", "requirements.in", "overrides.txt", "installer.txt", "installer.in", *BUILD_FILES]
)
def test_build_files_name_no_package_index(name: str) -> None:
    assert not re.search(r"https?://|^--?(index|extra-index|find-links|trusted)", read(name), re.MULTILINE)


def test_lock_is_written_by_make_locks() -> None:
    makefile = (FOLDER.parents[1] / "Makefile").read_text(encoding="utf-8")
    commands = " ".join(makefile.replace("\\\n", " ").split())
    for name in ("requirements", "installer"):
        assert f"images/post_training/{name}.in -o images/post_training/{name}.txt" in commands
    assert "#    make locks\n" in read("requirements.txt")
    assert (LOCKS / "maxtext.in").is_file()
    assert "-r ../../xsft/locks/maxtext.in" in read("requirements.in")


@pytest.mark.parametrize("name", BUILD_FILES)
def test_dockerfiles_use_no_remote_frontend(name: str) -> None:
    assert not re.search(r"^#\s*syntax\s*=", read(name), re.MULTILINE | re.IGNORECASE)


def test_readme_tables_list_the_arguments_secrets_and_labels() -> None:
    text, kind = read("Dockerfile"), "deps"
    arguments = set(re.findall(r"^ARG ([A-Z0-9_]+)", text, re.MULTILINE))
    assert arguments == {row[0] for row in table("build argument") if row[1] == kind}
    secrets = set(re.findall(r"type=secret,id=(\w+)", text))
    assert secrets == {row[0] for row in table("secret") if row[1] == kind}
    labels = set(re.findall(r"((?:org\.opencontainers|dev\.xsft)[\w.]+)=", text))
    assert labels == {label for label in labelled(kind) if label in text}
    assert labels <= labelled(kind)


@pytest.mark.parametrize("name", BUILD_FILES)
def test_argument_defaults_equal_those_of_the_readme(name: str) -> None:
    defaults = dict(re.findall(r"^ARG ([A-Z0-9_]+)=(\S+)$", read(name), re.MULTILINE))
    documented = {row[0]: '""' if row[2].startswith("empty") else row[2] for row in table("build argument")}
    assert defaults
    assert {argument: documented[argument] for argument in defaults} == defaults


def test_the_base_is_pinned_by_a_digest() -> None:
    """Everybody builds on the same one, without a push before."""
    assert re.search(r"^ARG BASE_IMAGE=python:3\.12-slim@sha256:[0-9a-f]{64}$", read("Dockerfile"), re.MULTILINE)


def labelled(kind: str) -> set[str]:
    return {row[0] for row in table("label") if row[1] in (kind, "both")}


def table(first_heading: str) -> list[list[str]]:
    """Rows of the README's table whose first heading is that, cells without their outer backquotes."""
    _, _, after_heading = read("README.md").partition(f"\n| {first_heading} |")
    lines = after_heading.split("\n\n")[0].splitlines()[2:]
    assert lines, f"no table {first_heading!r}"
    return [[_bare(cell) for cell in line.strip("|").split("|")] for line in lines]


def _bare(cell: str) -> str:
    cell = cell.strip()
    return cell[1:-1] if cell.startswith("`") and cell.endswith("`") and "` " not in cell.replace("` / `", "") else cell

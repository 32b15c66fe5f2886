"""The locks that ship, and how an environment is found without starting a process."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.base.errors import EnvironmentMissing, UsageError
from xsft.environments import installed
from xsft.environments.environments import LOCKS, NAMES, environment_for, refuse_platform

ALL_LOCKS = ("xsft", "dev", "xpk", "maxtext", "engine", "compiler")
CHECKOUT = Path(__file__).parents[2]


def pins(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", (LOCKS / f"{name}.txt").read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", ALL_LOCKS)
def test_a_lock_has_a_hash_for_every_pin_and_no_index_address(name: str) -> None:
    text = files("xsft").joinpath("locks", f"{name}.txt").read_text()
    entries = re.split(r"\n(?=[a-z0-9])", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    assert len(entries) > 30
    for entry in entries:
        assert re.fullmatch(r"[a-z0-9._-]+==\S+( ;[^\\]+)? \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n?)+", entry)


def test_the_maxtext_lock_contains_exactly_the_tested_packages() -> None:
    matches = re.findall(r"^([a-z0-9._-]+)==(\S+)", (LOCKS / "maxtext.in").read_text(), re.MULTILINE)
    assert len(matches) == 103
    assert pins("maxtext") == dict(matches)


def test_the_compiler_lock_is_the_maxtext_lock_plus_libtpu_of_the_image() -> None:
    image = (CHECKOUT / "images" / "post_training" / "requirements.in").read_text()
    (libtpu,) = re.findall(r"^libtpu==(\S+)", image, re.MULTILINE)
    assert pins("compiler") == {**pins("maxtext"), "libtpu": libtpu}


def test_the_compiler_is_refused_on_platforms_without_a_libtpu_wheel() -> None:
    spec = environment_for("compiler")
    refuse_platform(spec, current="Linux x86_64")
    with pytest.raises(EnvironmentMissing, match="Linux x86_64 only; this machine is Darwin arm64"):
        refuse_platform(spec, current="Darwin arm64")
    refuse_platform(environment_for("maxtext"), current="Darwin arm64")


def test_the_xpk_lock_contains_the_release_that_renders_plans() -> None:
    assert pins("xpk")["xpk"] == "1.16.0"


def test_every_dependency_of_pyproject_is_locked() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    names = [_normal(spec) for spec in project["project"]["dependencies"]]
    developing = [_normal(spec) for spec in project["dependency-groups"]["dev"]]
    assert set(names) <= set(pins("xsft"))
    assert {*names, *developing} <= set(pins("dev"))


def _normal(requirement: str) -> str:
    """source: packaging.python.org, "Names and normalization"."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", requirement)[0]).lower()


def test_the_dev_lock_contains_every_pin_of_the_users_lock() -> None:
    assert pins("xsft").items() <= pins("dev").items()


def test_xpk_and_maxtext_stay_out_of_xsfts_own_environment() -> None:
    assert {"xpk", "maxtext", "jax"}.isdisjoint(pins("dev"))


@pytest.mark.parametrize("name", NAMES)
def test_each_environment_is_named_by_the_digest_of_its_lock(name: str, tmp_path: Path) -> None:
    spec = environment_for(name)
    folder = installed.folder_for(tmp_path, spec, spec.pythons[0])
    assert folder.name == f"{name}-{spec.digest[:12]}-py{spec.pythons[0]}"
    assert installed.find_in(tmp_path, spec) is None


def test_an_unknown_environment_name_is_a_usage_error() -> None:
    with pytest.raises(UsageError) as caught:
        environment_for("torch")
    assert "xpk, maxtext" in caught.value.fix


@given(marker=st.binary(max_size=200))
def test_a_folder_with_a_wrong_marker_is_not_installed(tmp_path_factory: pytest.TempPathFactory, marker: bytes) -> None:
    spec = environment_for("xpk")
    folder = tmp_path_factory.mktemp("envs")
    (folder / "lib").mkdir()
    (folder / installed.MARKER).write_bytes(marker)
    assert installed.read_installed(folder, spec) is None

"""Every mode has rules; a mode that is added to the spec but not here fails."""

from __future__ import annotations

from typing import get_args

import pytest

from xsft.base.names import ModeName
from xsft.catalog.releases import key_ok, versions
from xsft.launcher.encoding import env_name_problem
from xsft.spec.model import WorkloadSpec
from xsft.spec.modes import mode_rules

MODES: tuple[ModeName, ...] = get_args(ModeName)


def test_spec_offers_every_mode_and_auto() -> None:
    offered = get_args(WorkloadSpec.model_fields["mode"].annotation)
    assert set(offered) == {*MODES, "auto"}


def test_modes_have_different_xpk_verbs() -> None:
    assert len({mode_rules(mode).xpk_verb for mode in MODES}) == len(MODES)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", versions())
def test_every_release_has_the_keys_of_each_mode(mode: ModeName, version: str) -> None:
    assert [key for key in mode_rules(mode).trainer_keys if not key_ok(key, version=version)] == []


@pytest.mark.parametrize("mode", MODES)
def test_environment_of_a_mode_is_valid_and_reserved(mode: ModeName) -> None:
    module = mode_rules(mode)
    names = [name for name, _ in module.trainer_env]
    assert [name for name in names if env_name_problem(name)] == []
    assert set(names) <= module.reserved_env


def test_storage_flags_differ_between_mcjax_and_pathways() -> None:
    """OCDBT and zarr3 in McJAX, neither in Pathways, whose single controller is said."""
    mcjax, pathways = mode_rules("mcjax").trainer_keys, mode_rules("pathways").trainer_keys
    for flag in ("checkpoint_storage_use_zarr3", "checkpoint_storage_use_ocdbt"):
        assert (mcjax[flag], pathways[flag]) == (True, False)
    assert pathways["enable_single_controller"] is True
    assert "enable_single_controller" not in mcjax

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xsft.catalog import tpu

NAMES = tuple(tpu.tpu_types())


@given(st.sampled_from(NAMES))
def test_slice_is_consistent(name: str) -> None:
    given_slice = tpu.parse_tpu_type(name)
    assert given_slice.hosts * given_slice.chips_per_host == given_slice.chips == prod(given_slice.physical_axes)
    assert given_slice.devices in (given_slice.chips, 2 * given_slice.chips)
    assert given_slice.machine_type.endswith(f"-{given_slice.chips_per_host}t")


@given(st.sampled_from(NAMES))
def test_count_and_topology_names_parse_to_the_same_slice(name: str) -> None:
    given_slice = tpu.parse_tpu_type(name)
    assert (
        given_slice
        == tpu.parse_tpu_type(f"{given_slice.generation}-{given_slice.topology}")
        == tpu.parse_tpu_type(given_slice.tpu_type)
    )
    assert given_slice.xpk_type == name, "xpk gets what the user wrote"


@given(st.sampled_from(NAMES))
def test_number_in_a_type_name_counts_tensorcores(name: str) -> None:
    given_slice = tpu.parse_tpu_type(name)
    size = given_slice.tpu_type.partition("-")[2]
    assert "x" in size or int(size) == given_slice.chips * given_slice.cores_per_chip


@settings(max_examples=15)  # each hint compares the text with 1,100 names
@given(st.text(alphabet="v456eplitodux0123-", max_size=12) | st.text())
def test_any_other_text_is_refused_with_a_hint(text: str) -> None:
    if text in NAMES:
        return
    with pytest.raises(ValueError, match="is not a TPU type"):
        tpu.parse_tpu_type(text)


def test_a_generation_may_have_a_dash_in_its_name(new_generation: str) -> None:
    """One section of the data file is all that a generation takes."""
    slices = [tpu.parse_tpu_type(name) for name in ("v7x-lite-16", "v7x-lite-4x4", "v6e-16")]
    assert [(slice_type.generation, slice_type.topology) for slice_type in slices] == [(new_generation, "4x4")] * 2 + [
        ("v6e", "4x4")
    ]
    assert (slices[0].chips, slices[0].hosts, slices[0].machine_type) == (16, 4, "ct7xl-standard-4t")
    assert tpu.slice_of("tpu-v7x-lite-slice", "4x4") == tpu.slice_on("ct7xl-standard-4t", "4x4")
    with pytest.raises(ValueError, match="Nearest: v7x-lite-16"):
        tpu.parse_tpu_type("v7x-lite-17")


def test_v6e_256_has_its_shape_and_labels() -> None:
    given_slice = tpu.parse_tpu_type("v6e-256")
    assert (given_slice.generation, given_slice.topology, given_slice.chips, given_slice.hosts) == (
        "v6e",
        "16x16",
        256,
        64,
    )
    assert given_slice.accelerator_label == "tpu-v6e-slice"
    assert given_slice.physical_axes == (16, 16)
    assert (given_slice.hbm_gib, given_slice.xpk_type) == (31.24, "v6e-256")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("v6e-257", "Nearest: v6e-256, v6e-128."),
        ("V5e-16", "xpk's name is 'v5litepod-16'."),
        ("v5e-1", "Nearest: v5litepod-8, v5litepod-16."),
        ("v5lite-1", "nearest to 'v5litepod-1' are v5litepod-8, v5litepod-16."),
        ("v5p-16x4x4", "Nearest: v5p-4x4x16."),
        ("v5p-3", "the number counts TensorCores, 2 per chip"),
        ("V6E-256", "xpk's name is 'v6e-256'."),
        ("v6e-0256", "Nearest: v6e-256"),
        ("v6-256", "Did you mean v6e-…"),
        ("v6e", "Nearest: v6e-1"),
        ("", "starts with none of v6e, v5litepod"),
    ],
)
def test_wrong_type_name_error_suggests_the_nearest(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match="is not a TPU type") as caught:
        tpu.parse_tpu_type(text)
    assert hint in str(caught.value)


def test_type_name_with_a_count_means_one_of_several_topologies() -> None:
    cube, line = tpu.parse_tpu_type("v5p-512"), tpu.parse_tpu_type("v5p-4x4x16")
    assert (cube.topology, line.chips, line.tpu_type) == ("4x8x8", cube.chips, "v5p-4x4x16")
    assert cube != line
    assert "256 chips on 64 hosts (the number counts TensorCores, 2 per chip)" in cube.describe


def test_ironwood_has_two_devices_per_chip() -> None:
    """source: maxtext@0.2.5 maxtext/utils/accelerator_to_spec_map.py, tpu7x-128 is 4x4x4 with 128 devices."""
    given_slice = tpu.parse_tpu_type("tpu7x-128")
    assert (given_slice.chips, given_slice.devices, given_slice.placement_policy) == (64, 128, True)


@pytest.mark.contract
def test_tpu_types_equal_every_entry_of_xpk(xpk_tpu_types: dict[str, dict[str, Any]]) -> None:
    ours = {name: _as_xpk_says(tpu.parse_tpu_type(name)) for name in NAMES}
    assert ours == xpk_tpu_types


def _as_xpk_says(given_slice: tpu.Slice) -> dict[str, object]:
    return {
        "topology": given_slice.topology,
        "hosts": given_slice.hosts,
        "chips_per_host": given_slice.chips_per_host,
        "accelerator": given_slice.accelerator_label,
        "machine": given_slice.machine_type,
        "placement_policy": given_slice.placement_policy,
    }


def test_v5e_is_another_name_of_v5litepod() -> None:
    assert tpu.parse_tpu_type("v5e-8") == tpu.parse_tpu_type("v5litepod-8")
    assert tpu.parse_tpu_type("v5e-4x4").xpk_type == "v5litepod-4x4"  # what xpk gets

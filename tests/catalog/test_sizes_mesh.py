"""Mesh axes from MaxText's keys, and the axis that MaxText fills."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.catalog.sizes import mesh_axes


@given(others=st.lists(st.sampled_from([1, 2, 4, 8]), max_size=3), total=st.sampled_from([4, 8, 16, 64, 256]))
def test_free_axis_takes_the_remaining_devices(others: list[int], total: int) -> None:
    names = ("tensor", "expert", "context")
    keys = {f"ici_{name}_parallelism": size for name, size in zip(names, others, strict=False)}
    sizes = mesh_axes(keys, "ici", total=total)
    if total % prod(others) == 0:
        assert prod(sizes.values()) == total
    else:
        assert sizes["fsdp"] == -1


@pytest.mark.parametrize(("group", "axes"), [("ici", {"fsdp": 4, "tensor": 2}), ("dcn", {"data": -1, "fsdp": 3})])
def test_mesh_axes_reads_the_axes_of_one_group_only(group: str, axes: dict[str, int]) -> None:
    keys = {"ici_tensor_parallelism": "2.0", "dcn_fsdp_parallelism": 3, "ici_parallelism": [1], "steps": 5}
    assert mesh_axes(keys, group, total=8) == axes

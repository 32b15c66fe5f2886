"""The axes of MaxText's mesh: how chips and slices are split. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod

Axes = Mapping[str, int]
"""Axis name (`fsdp`) -> ways it is split; -1 if that is left open."""

DEFAULT_AXES: Mapping[str, Axes] = {"ici": {"fsdp": -1}, "dcn": {"data": -1}}
"""MaxText's default axes; every other axis is 1. source: maxtext@0.2.5 configs/base.yml"""

_AXIS = re.compile(r"(ici|dcn)_(\w+)_parallelism")


def mesh_axes(keys: Mapping[str, object], group: str, *, total: int) -> Axes:
    """Return the axes of one group (`ici`, `dcn`) with -1 resolved against `total`; it stays -1 if the others do not
    divide it. source: maxtext@0.2.5 utils/max_utils.py fill_unspecified_mesh_axes
    """
    sizes = given_axes(keys, group)
    product_of_given = prod(size for size in sizes.values() if size != -1)
    open_axis = total // product_of_given if product_of_given > 0 and total % product_of_given == 0 else -1
    return {axis: open_axis if size == -1 else size for axis, size in sizes.items()}


def given_axes(keys: Mapping[str, object], group: str) -> Axes:
    """Return the axes of one group as MaxText's keys and its defaults give them."""
    named = {axis[2]: value for key, value in keys.items() if (axis := _AXIS.fullmatch(key)) and axis[1] == group}
    return {**DEFAULT_AXES[group], **{axis: _axis_size(value) for axis, value in named.items()}}


def _axis_size(value: object) -> int:
    """Return an axis as a number; an invalid one counts as 1, because another check rejects it."""
    try:
        return int(float(str(value)))
    except (ValueError, OverflowError):
        return 1

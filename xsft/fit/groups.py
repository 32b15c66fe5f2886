"""The devices between which a collective of a compiled program moves bytes. Pure.

source: openxla xla/service/hlo_parser.cc: replica_groups as lists, as an iota, or as axes of a mesh.
"""

from __future__ import annotations

import itertools
import math
import re

_LISTS = re.compile(r"replica_groups=\{\{([\d,]+)\}")
_IOTA = re.compile(r"replica_groups=\[(?P<groups>[\d,]+)\]<=\[(?P<dims>[\d,]+)\](?:T\((?P<order>[\d,]+)\))?")
_MESH = re.compile(r"replica_groups=mesh\[(?P<axes>[^\]]*)\][^{]*\{(?P<over>[^}]*)\}")


def first_group(text: str) -> tuple[int, ...]:
    """Return the first group of devices, by their place in the mesh; empty if the text names none."""
    if lists := _LISTS.search(text):
        return _split_numbers(lists[1])
    if iota := _IOTA.search(text):
        return _of_iota(
            _split_numbers(iota["groups"]), _split_numbers(iota["dims"]), _split_numbers(iota["order"] or "")
        )
    if mesh := _MESH.search(text):
        return _of_mesh(mesh["axes"], mesh["over"])
    return ()


def _split_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split(",") if one)


def _of_iota(groups: tuple[int, ...], dims: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """Return the first group of an iota: the numbers from 0 in the shape `dims`, transposed, cut into `groups`."""
    turned = order or tuple(range(len(dims)))
    strides = [math.prod(dims[place + 1 :]) for place in range(len(dims))]
    places = itertools.product(*(range(dims[axis]) for axis in turned))
    flat = (sum(at * strides[axis] for at, axis in zip(place, turned, strict=True)) for place in places)
    return tuple(itertools.islice(flat, groups[-1]))


def _of_mesh(axes: str, over: str) -> tuple[int, ...]:
    sizes = [(name, int(size)) for name, size in re.findall(r"'([^']+)'=(\d+)", axes)]
    chosen = set(re.findall(r"'([^']+)'", over))
    strides = [math.prod(size for _, size in sizes[place + 1 :]) for place in range(len(sizes))]
    ranges = (range(size) if name in chosen else range(1) for name, size in sizes)
    return tuple(
        sum(at * stride for at, stride in zip(place, strides, strict=True)) for place in itertools.product(*ranges)
    )

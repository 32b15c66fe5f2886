"""A TPU generation that xpk does not have yet: the only change is a section of the catalogue's data file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

import pytest

from xsft.catalog import tpu
from xsft.catalog.data import toml

SECTION = """
[v7x-lite]
cores_per_chip = 1
devices_per_chip = 1
accelerator = "tpu-v7x-lite-slice"
machine = "ct7xl-standard"
topologies = ["2x2", "2x4", "4x4", "4x8"]
bf16_tflops = 1150.0
hbm_gib = 96.0
hbm_source = "invented"
"""

CACHED = (tpu.generations, tpu.parse_tpu_type, tpu.slice_of, tpu.slice_on, tpu.slices_by_size)


@pytest.fixture
def new_generation() -> Iterator[str]:
    """Return the generation's name, while the data file has its section."""
    rows = {**toml("tpu_types.toml"), **tomllib.loads(SECTION)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tpu, "toml", lambda _name: rows)
        _forget()
        yield "v7x-lite"
    _forget()


def _forget() -> None:
    for function in CACHED:
        function.cache_clear()

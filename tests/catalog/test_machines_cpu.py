"""CPU machines: xpk's rows, and the memory that GKE leaves to a pod."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.catalog.machines import GIB, cpu_type_for, cpu_types

LISTING = """
import json
from xpk.core.system_characteristics import AcceleratorType, UserFacingNameToSystemCharacteristics as known
print(json.dumps({name: [one.gce_machine_type, one.chips_per_vm] for name, one in known.items()
                  if one.accelerator_type == AcceleratorType.CPU and one.vms_per_slice == 1}))
"""


def test_smallest_machine_with_enough_memory_is_chosen() -> None:
    sizes = {cpu_type_for(gib * GIB): gib for gib in (1, 12, 14, 110, 120, 240, 250, 1390)}
    assert [size.machine if size else None for size in sizes] == [
        "n2-standard-4",
        "n2-standard-32",
        "n2-standard-64",
        "m1-megamem-96",
    ]
    assert cpu_type_for(1434 * GIB) is None


@given(st.integers(min_value=0, max_value=1400 * GIB))
def test_pod_fits_beside_the_memory_reserved_by_the_node(memory: int) -> None:
    cpu_type = cpu_type_for(memory)
    assert cpu_type is None or memory <= cpu_type.pod_memory < cpu_type.memory_gib * GIB


def test_pod_memory_excludes_the_reservation_that_gke_documents() -> None:
    """source: docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes: 0.25*4 + 0.2*4 + 0.1*8 GiB."""
    (small, *_) = cpu_types()
    assert (small.machine, small.pod_memory) == ("n2-standard-4", int((16 - 2.6) * GIB) - 100 * 2**20)


@pytest.mark.contract
def test_cpu_types_equal_those_of_xpk(xpk_python: Path) -> None:
    done = subprocess.run((xpk_python, "-I", "-c", LISTING), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {cpu_type.name: [cpu_type.machine, cpu_type.vcpus] for cpu_type in cpu_types()}

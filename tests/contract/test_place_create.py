"""`xsft place create` through the dry run of the real xpk."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import to_builtins

from tests.documents import read_document
from tests.inprocess import xsft
from tests.stories import ROOT
from xsft.effects.environments.installed import BuiltEnvironment

pytestmark = pytest.mark.contract
PLACE = "{project: my-project, zone: us-east5-b, cluster: big, output: gs://my-bucket/runs}"


@pytest.fixture
def workload(tmp_path: Path) -> str:
    text = (ROOT / "workloads" / "qwen3_gsm8k.yaml").read_text()
    path = tmp_path / "qwen.yaml"
    path.write_text(text.replace("place: main", f"place: {PLACE}"))
    return str(path)


def test_a_mcjax_line_makes_spot_slices_of_the_workloads_topology(
    workload: str, xpk_environment: BuiltEnvironment
) -> None:
    done = xsft("place", "create", workload, "--set", "tpu.num_slices=2", "--json")
    assert done.returncode == 0, done.stderr
    document = to_builtins(read_document("place-create", done.stdout))
    where = ["--cluster=big", "--project=my-project", "--zone=us-east5-b"]
    assert document["xpk_argv"][:6] == ["xpk", "cluster", "create", *where]
    assert document["xpk_argv"][7:] == ["--num-slices=2", "--spot"]
    assert {row["outcome"] for row in document["audit"]} == {"landed"}
    pools = [one for one in document["commands"] if "node-pools" in one and "create" in one]
    assert len(pools) == 2
    assert all("--spot" in pool for pool in pools)


def test_a_pathways_line_makes_the_heads_node_pool_and_prints_its_commands(
    workload: str, xpk_environment: BuiltEnvironment
) -> None:
    keys = ("mode=pathways", "tpu.type=v6e-256", "tpu.num_slices=2", "tpu.capacity=reservation", "tpu.reservation=res")
    settings = [word for key in keys for word in ("--set", key)]
    done = xsft("place", "create", workload, *settings)
    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    assert first.startswith("xpk cluster create-pathways --cluster=big")
    assert first.endswith("--tpu-type=v6e-256 --num-slices=2 --reservation=res")
    assert any("node-pools create cpu-np" in line for line in others)
    assert any("--tpu-topology=16x16" in line and "--num-nodes=64" in line for line in others)
    assert others[-1].startswith("# xpk's dry run shows one slice of a reservation")

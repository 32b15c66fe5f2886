"""The pins of the tools agree with each other, and Kueue's source is changed only where we know it."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from tests.control_plane import build, kueue_source, tools
from tests.control_plane.nodes import DEFAULT, HEADS, nodes
from tests.until import until
from xsft.base.errors import EnvironmentMissing


@pytest.mark.parametrize("module", ["control", "kwok"])
def test_the_parts_of_kubernetes_are_of_one_version(module: str) -> None:
    kubernetes = tools.version("control", "k8s.io/kubernetes")
    replaced = re.findall(r"^\t(k8s.io/\S+) => \1 (\S+)$", tools.pins(module), re.MULTILINE)
    assert len(replaced) == {"control": 31, "kwok": 29}[module]
    assert {version for _, version in replaced} == {kubernetes.replace("v1.", "v0.", 1)}


def test_no_address_of_a_module_proxy_is_written_down() -> None:
    for file in tools.GO.glob("*/*"):
        assert "://" not in file.read_text(encoding="utf-8").replace("https://go.dev", "")


def test_a_patch_of_kueue_is_refused_unless_its_text_occurs_once(tmp_path: Path) -> None:
    for name, changes in kueue_source.PATCH.items():
        source = "".join(old for old, _ in changes)
        assert kueue_source.patched(name, source) == "".join(new for _, new in changes)
        for spoiled in ("", source * 2):
            with pytest.raises(LookupError, match="look at PATCH"):
                kueue_source.patched(name, spoiled)


def test_a_slice_is_a_node_pool_with_a_node_per_host() -> None:
    pools: dict[str, list[str]] = {}
    for node in nodes(DEFAULT):
        labels = node["metadata"]["labels"]
        pools.setdefault(labels["cloud.google.com/gke-nodepool"], []).append(
            node["status"]["capacity"].get("google.com/tpu", "none")
        )
    assert len(pools.pop("cpu-np")) == HEADS
    sizes = sorted(len(chips) for chips in pools.values())
    assert sizes == [2, 2, 4, 4, 64, 64, 64, 64]
    assert {chips for pool in pools.values() for chips in pool} == {"4"}


def test_a_long_build_repeats_its_line_of_progress() -> None:
    """`make cluster` printed one line in 18 minutes."""
    heard: list[str] = []
    twice = partial(until, lambda: len(heard) >= 2, what="a second line")
    build.telling(twice, what="building kubectl, 1 of 9", progress=heard.append, every_s=0.05)
    assert all(line.startswith("building kubectl, 1 of 9: ") for line in heard)
    with pytest.raises(EnvironmentMissing):
        build.telling(_fails, what="building kubectl", progress=heard.append)


def _fails() -> None:
    raise EnvironmentMissing("building kubectl failed")

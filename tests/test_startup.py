"""`xsft --help` must feel instant: what it may not import, asserted on the modules it loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.kubeapi import write_kubeconfig

HEAVY = ("pydantic", "pydantic_core", "kubernetes", "google", "docker", "rich", "yaml", "matplotlib", "numpy", "jax")

PROBE = """
import sys
from xsft.verbs.cli import main
try:
    main({arguments!r})
finally:
    sys.stderr.write("\\nMODULES " + " ".join(sorted(sys.modules)))
"""


def modules_after(*arguments: str, **where: Any) -> set[str]:
    argv = (sys.executable, "-c", PROBE.format(arguments=list(arguments)))
    done = subprocess.run(argv, capture_output=True, text=True, check=True, **where)
    return set(done.stderr.rpartition("MODULES ")[2].split())


@pytest.mark.parametrize("arguments", [("--help",), ("plan", "--help"), ("--version",), ()])
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    loaded = modules_after(*arguments)
    assert "xsft.verbs.cli" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_help_of_the_top_imports_no_verb() -> None:
    loaded = modules_after("--help")
    verbs = {name for name in loaded if name.startswith("xsft.verbs.")}
    assert verbs == {"xsft.verbs.cli", "xsft.verbs.document"}


@pytest.mark.loopback
@pytest.mark.parametrize("arguments", [("status",), ("status", "--json"), ("status", "--all", "--json")])
def test_status_loads_no_workload_code(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Half of the time of a look would go there."""
    nothing = {"HOME": str(tmp_path), "XSFT_STATE_DIR": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path)}
    loaded = modules_after(*arguments, cwd=tmp_path, env={**os.environ, **nothing})
    assert "xsft.runs.read_runs" in loaded
    unused = {"pydantic", "rich", "xsft.planning.steps", "xsft.spec.model", "xsft.spec.place"}
    assert unused & loaded == set()


@pytest.mark.loopback
def test_status_of_a_cluster_loads_no_kubernetes_library(tmp_path: Path) -> None:
    config = tmp_path / "config"
    write_kubeconfig(config, server="http://127.0.0.1:1", token="none", context="nobody")
    nothing = {"HOME": str(tmp_path), "XSFT_STATE_DIR": str(tmp_path / "state"), "KUBECONFIG": str(config)}
    loaded = modules_after("status", "--context", "nobody", cwd=tmp_path, env={**os.environ, **nothing})
    assert "urllib3" in loaded
    assert not [name for name in loaded if name.split(".")[0] == "kubernetes"]

"""python -m tests.control_plane: a second cluster beside the first leaves nothing behind; a missing Go is reported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.control_plane.__main__ import main
from tests.control_plane.api import Cluster
from tests.control_plane.fixtures import built_tools
from tests.control_plane.record import load
from tests.control_plane.tools import Tools
from tests.stories import ROOT


def command(*arguments: str, cache: Path, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "tests.control_plane", *arguments),
        env={**os.environ, "XSFT_CACHE_DIR": str(cache), "PATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def cache(tmp_path: Path, cluster_tools: Tools) -> Iterator[Path]:
    """A cache of this test's own, which has the programs already; nothing runs from it afterwards."""
    (tmp_path / "cluster-tools").symlink_to(cluster_tools.folder.parent)
    yield tmp_path
    if leftover := load(tmp_path / "clusters" / "other"):
        leftover.down()


@pytest.mark.cluster
def test_a_second_cluster_comes_and_goes_beside_the_first(real_cluster: Cluster, cache: Path) -> None:
    name_options = ("--name", "other")
    up = command("up", *name_options, "--slices", "1xv6e-8", cache=cache)
    assert up.returncode == 0, up.stderr
    other = load(cache / "clusters" / "other")
    assert other is not None
    assert f"export KUBECONFIG={other.kubeconfig} " in up.stdout
    assert yaml.safe_load(up.stdout.partition("gs://…`:\n")[2])["place"]["context"] == "other"
    assert other.kubectl("get", "nodes", "-o", "name").count("v6e-8") == 2
    assert real_cluster.kubectl("get", "nodes", "-o", "name").count("v6e-256") == 256
    assert command("up", *name_options, cache=cache).stdout == up.stdout, "it is the same one still"
    pids = [process.pid for process in other.processes.values()]
    assert [str(pid) for pid in pids] == [
        line.split()[-1] for line in command("status", *name_options, cache=cache).stdout.splitlines()[1:]
    ]
    assert command("down", *name_options, cache=cache).returncode == 0
    assert not any(process.alive for process in other.processes.values())
    assert [path.name for path in (cache / "clusters").iterdir()] == []
    assert command("status", *name_options, cache=cache).returncode == 1
    assert all(real_cluster.alive().values())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--slices", "v6e-8"), "is not such as 2xv6e-8"),
        (("--slices", "2xv6-8"), "is not a TPU type"),
        (("--name", "../x"), "is not a name"),
    ],
)
def test_up_refuses_invalid_slices_and_names(
    empty_cache: Path, capsys: pytest.CaptureFixture[str], wrong: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["up", *wrong])
    assert message in capsys.readouterr().err
    assert list(empty_cache.iterdir()) == []


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Without programs, and without Go to build them."""
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "no-go-here"))
    return tmp_path


def test_up_without_go_exits_3_and_names_the_next_step(empty_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up"]) == 3
    err = capsys.readouterr().err
    assert "no Go on PATH" in err
    assert "install Go" in err.rpartition("fix:")[2]
    assert main(["build", "--if-possible"]) == 0
    err = capsys.readouterr().err
    assert "WARNING: tests that need a real control plane will be counted as not run" in err


def test_cluster_tests_without_go_are_skipped_with_the_reason(empty_cache: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match="NOT RUN: needs a real control plane's programs: no Go on PATH"):
        built_tools()


def test_an_old_go_is_reported_with_its_message(tmp_path: Path) -> None:
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text("#!/bin/sh\necho 'go: go.mod requires go >= 1.26.0 (running go 1.19.8)' >&2; exit 1\n")
    go.chmod(0o755)
    up = command("up", cache=tmp_path, path=f"{go.parent}:/bin:/usr/bin")
    assert up.returncode == 3
    assert "too old" in up.stderr
    assert "running go 1.19.8" in up.stderr

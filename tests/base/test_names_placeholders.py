"""Placeholders of places.yaml and of the templates are recognised wherever they are used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.checks.factory import run_of, spec
from xsft.base.errors import UsageError
from xsft.base.names import PLACEHOLDERS, placeholder_in
from xsft.launcher.xpkcluster import cluster_line
from xsft.verbs.cli import main
from xsft.verbs.image import registry_of
from xsft.weights.read_checkpoint import read_checkpoint
from xsft.world.new_cluster import make_cluster

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "xsft" / "packaged" / "init", ROOT / "workloads")
SHIPPED = (ROOT / "places.yaml", *(file for folder in FOLDERS for file in sorted(folder.glob("*.yaml"))))


@pytest.mark.parametrize("file", SHIPPED, ids=lambda f: f.stem)
def test_every_shipped_example_name_is_a_placeholder(file: Path) -> None:
    a_run = {"my-run"}  # a run may be named so
    assert set(re.findall(r"\bmy-[a-z-]+", file.read_text())) - a_run <= PLACEHOLDERS


def test_placeholders_are_found_in_addresses_and_names() -> None:
    assert placeholder_in("gs://my-bucket/runs") == "my-bucket"
    assert placeholder_in("us-docker.pkg.dev/my-project/xsft") == "my-project"
    assert placeholder_in(None, "us-east5-b", "example.com:my-project") == "my-project"
    assert placeholder_in(None, "", "my-project-2", "gs://team/my-bucket-list", "not-my-cluster") is None


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh one, on a machine whose gcloud must not be asked."""
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "places.yaml").write_text((ROOT / "places.yaml").read_text())
    gcloud = tmp_path / "bin" / "gcloud"
    gcloud.parent.mkdir()
    gcloud.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\necho NO >&2\nexit 1\n")
    gcloud.chmod(0o755)
    monkeypatch.setenv("PATH", str(gcloud.parent), prepend=":")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_status_in_a_fresh_clone_makes_no_requests(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("status",)) == 0
    assert "".join(capsys.readouterr()).splitlines() == ["no runs"]
    assert not (clone / "asked").exists()


@pytest.mark.parametrize("verb", [("status",), ("why", "x"), ("logs", "x"), ("cancel", "x", "--yes"), ("wait", "x")])
def test_a_named_placeholder_is_reported_in_one_line(
    verb: tuple[str, ...], clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main((*verb, "--place", "main")) != 0
    out, err = capsys.readouterr()
    problem, fix = err.splitlines()
    assert out == ""
    assert "my-project is a placeholder from xsft's templates" in problem
    assert "Put your own project" in fix
    assert not (clone / "asked").exists()


def test_secret_and_registry_refuse_a_placeholder_place(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = clone / "token"
    file.write_text("x")
    assert main(("secret", "create", "hub", "--place", "main", "--from-file", str(file))) == 2
    assert "[place-placeholder]" in capsys.readouterr().err
    with pytest.raises(UsageError, match="placeholder"):
        registry_of("main", start=clone)
    assert registry_of(None, start=clone) is None


def test_placeholder_bucket_is_not_read() -> None:
    facts = read_checkpoint("gs://my-bucket/model/0/items", env={})
    assert facts.status == "unreadable"
    assert "my-bucket is a placeholder" in (facts.detail or "")


def test_shipped_places_file_holds_only_main() -> None:
    assert set(yaml.safe_load((ROOT / "places.yaml").read_text())) == {"main"}


def test_make_cluster_refuses_a_placeholder_project(clone: Path) -> None:
    place = {"project": "my-project", "zone": "us-east5-b", "cluster": "tpus"}
    line = cluster_line(run_of(spec(place=place, tpu={"type": "v6e-8", "capacity": "spot"})))
    with pytest.raises(UsageError, match="my-project is a placeholder"):
        make_cluster(line, python=clone / "unused", on_line=print)
    assert not (clone / "asked").exists()

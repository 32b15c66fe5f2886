"""`xsft place add`: from options, from gcloud's lists, at a terminal.

A real cluster: tests/control_plane/test_place.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.documents import read_document
from tests.fakes.gcloud import ANSWERS, put_gcloud
from tests.inprocess import xsft
from xsft.verbs import place

FILE = "# ours\nmain: {context: a}  # the first\n"


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove gcloud, kubeconfig, login and the user's places."""
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_CONFIG_HOME", "CLOUDSDK_CONFIG", "HOME", "XSFT_STATE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "no-login.json"))
    (tmp_path / "places.yaml").write_text(FILE)


def contexts(*names: str) -> str:
    return json.dumps({"contexts": [{"name": name, "context": {"cluster": "c"}} for name in names]})


def test_place_add_needs_only_options_without_gcloud_and_cluster(tmp_path: Path) -> None:
    options = ("--project", "my-project", "--zone", "us-east5-b", "--cluster", "big", "--queue", "team")
    done = xsft("place", "add", "team", *options, "--output", "gs://my-runs/runs")
    assert done.returncode == 0, done.stderr
    added = "team:\n  project: my-project\n  zone: us-east5-b\n  cluster: big\n  queue: team\n"
    assert (tmp_path / "places.yaml").read_text() == f"{FILE}{added}  output: gs://my-runs/runs\n"
    assert "gcloud is not installed" in done.stderr
    assert "The cluster was not read" in done.stderr


def test_an_existing_name_is_refused_unless_it_is_replaced(tmp_path: Path) -> None:
    refused = xsft("place", "add", "main", "--context", "b", "--offline")
    assert (refused.returncode, (tmp_path / "places.yaml").read_text()) == (4, FILE)
    assert "--replace" in refused.stderr
    assert xsft("place", "add", "main", "--context", "b", "--offline", "--replace").returncode == 0
    assert (tmp_path / "places.yaml").read_text() == "# ours\nmain:\n  context: b\n"


def test_a_broken_file_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "places.yaml").write_text("- main\n")
    done = xsft("place", "add", "lab", "--context", "b", "--offline")
    assert done.returncode == 2
    assert str(tmp_path / "places.yaml") in done.stderr
    assert (tmp_path / "places.yaml").read_text() == "- main\n"


def test_place_add_print_writes_no_file(tmp_path: Path) -> None:
    done = xsft("place", "add", "lab", "--context", "b", "--offline", "--print")
    assert (done.returncode, done.stdout) == (0, "lab:\n  context: b\n")
    assert (tmp_path / "places.yaml").read_text() == FILE


def test_options_of_place_add_may_precede_the_name() -> None:
    for argv in (("--offline", "lab", "--print"), ("--print", "--offline", "lab"), ("--offline", "--print", "lab")):
        done = xsft("place", "add", "--context", "b", *argv)
        assert (done.returncode, done.stdout) == (0, "lab:\n  context: b\n"), done.stderr


def test_a_second_name_is_refused(tmp_path: Path) -> None:
    done = xsft("place", "add", "lab", "--context", "b", "--offline", "lub")
    assert (done.returncode, (tmp_path / "places.yaml").read_text()) == (2, FILE)
    assert "unrecognized arguments: lub" in done.stderr


def test_a_value_of_the_wrong_form_is_refused_and_nothing_written(tmp_path: Path) -> None:
    done = xsft("place", "add", "lab", "--context", "b", "--output", "my-bucket", "--offline")
    assert done.returncode == 2
    assert "lab.output" in done.stderr
    assert (tmp_path / "places.yaml").read_text() == FILE


def test_gclouds_only_cluster_is_taken_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_gcloud(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    done = xsft("place", "add", "--json")
    assert done.returncode == 0, done.stderr
    document = read_document("place-add", done.stdout)
    assert document["values"] == {"project": "my-project", "zone": "us-east5", "cluster": "trainers"}
    assert document["found"]["clusters"][0]["slices"] == {"v6e-256": 2, "v6e-4": 3}
    assert document["found"]["buckets"] == ["gs://my-runs"]
    assert (tmp_path / "places.yaml").read_text().startswith(f"{FILE}trainers:\n")


def test_several_clusters_are_listed_without_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(contexts("lab", "gke_my-project_us-east5_big"))
    done = xsft("place", "add")
    assert done.returncode == 2
    assert "No cluster was named, and 2 were found: lab, gke_my-project_us-east5_big" in done.stderr
    chosen = xsft("place", "add", "--cluster", "big", "--print")
    assert chosen.stdout == "big:\n  project: my-project\n  zone: us-east5\n  cluster: big\n"


def test_an_unknown_context_adds_nothing(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(contexts("lab"))
    done = xsft("place", "add", "new", "--context", "lub")
    assert done.returncode == 2
    assert "did you mean lab?" in done.stderr
    assert (tmp_path / "places.yaml").read_text() == FILE


def test_a_terminal_is_asked_for_the_missing_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_gcloud(tmp_path / "bin", {name: answer for name, answer in ANSWERS.items() if "clusters" not in name})
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(place, "has_terminal", lambda: True)
    (tmp_path / "kubeconfig").write_text(contexts("lab", "gke_my-project_us-east5_big"))
    done = xsft("place", "add", "--print", stdin="2\nteam\n1\n\n")
    assert done.stdout == (
        "team:\n  project: my-project\n  zone: us-east5\n  cluster: big\n  output: gs://my-runs/runs\n"
    )
    assert "  1  us-docker.pkg.dev/my-project/xsft\nRegistry [none]: " in done.stderr
    assert "the clusters of my-project: ERROR: (gcloud) You do not currently have an active account" in done.stderr


def test_a_terminal_is_asked_for_a_cluster_that_was_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "has_terminal", lambda: True)
    answers = "\nmy-project\nus-east5-b\nbig\nteam\ngs://my-runs/runs\n\n"
    done = xsft("place", "add", "--print", "--offline", stdin=answers)
    assert done.returncode == 0, done.stderr
    by_hand = "team:\n  project: my-project\n  zone: us-east5-b\n  cluster: big\n  output: gs://my-runs/runs\n"
    assert done.stdout == by_hand
    named = xsft("place", "add", "--print", "--offline", stdin="lab\n\n\n\n")
    assert named.stdout == "lab:\n  context: lab\n"
    assert xsft("place", "add", "--print", "--offline", stdin="\n\n\n\n").returncode == 2

"""`xsft place create`: xpk's dry run, and with `--yes` the real xpk with stand-ins of gcloud and kubectl."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.documents import read_document
from tests.fakes.clusters import standing_in
from tests.fakes.gcloud import CLUSTERS
from tests.fakes.xpktools import serving_xpk
from tests.inprocess import xsft
from tests.stories import ROOT
from tests.until import until
from xsft.environments.installed import BuiltEnvironment

pytestmark = pytest.mark.contract
PLACE = "{project: acme-tpus, zone: us-east5-b, cluster: big, output: gs://my-bucket/runs}"


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
    document = read_document("place-create", done.stdout)
    where = ["--cluster=big", "--project=acme-tpus", "--zone=us-east5-b"]
    assert document["xpk_argv"][:6] == ["xpk", "cluster", "create", *where]
    assert document["xpk_argv"][7:] == ["--num-slices=2", "--spot"]
    assert not document["created"]
    assert {row["outcome"] for row in document["audit"]} == {"landed"}
    pools = [command for command in document["commands"] if "node-pools" in command and "create" in command]
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


def test_the_place_of_the_workload_is_read_from_places_yaml(tmp_path: Path, xpk_environment: BuiltEnvironment) -> None:
    workload = tmp_path / "qwen.yaml"
    workload.write_text((ROOT / "workloads" / "qwen3_gsm8k.yaml").read_text())
    missing = xsft("place", "create", str(workload))
    assert missing.returncode == 2
    assert "place-unknown" in missing.stderr
    (tmp_path / "places.yaml").write_text(f"main: {PLACE}\n")
    done = xsft("place", "create", str(workload))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("xpk cluster create --cluster=big --project=acme-tpus --zone=us-east5-b")


VERSION = "1.34.1-gke.1"
GCLOUD = """\
#!/bin/sh
echo "gcloud $*" >> {folder}/calls
case "$*" in
*"clusters list"*"--format=json"*) cat {folder}/clusters.json ;;
*get-server-config*) test ! -e {folder}/broken || {{ echo "ERROR: quota exceeded"; exit 1; }}; echo {version} ;;
*"clusters create"*) test ! -e {folder}/slow || {{ touch {folder}/creating; exec sleep 600; }}
  cp {folder}/made.json {folder}/clusters.json ;;
*currentMasterVersion*) echo {version} ;;
*"projects describe"*) echo 123456 ;;
*get-credentials*) cp {folder}/kubeconfig "$KUBECONFIG" ;;
esac
"""
KUBECTL = """\
#!/bin/sh
case "$*" in *"jsonpath"*) echo 1 ;; esac
"""
PYTHON = """\
#!{python}
import os, sys
argv = sys.argv[1:]
if "xpk.main" in argv:
    main = argv.index("xpk.main")
    quick = "import time; time.sleep = lambda _s, sleep=time.sleep: sleep(0.01)"
    argv[main - 1 : main + 1] = ["-c", quick + "; from xpk.main import main; main()"]
os.execv("{real}", ["{real}", *argv])
"""


@pytest.fixture
def tools(tmp_path: Path, xpk_environment: BuiltEnvironment, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """gcloud and kubectl at the front of PATH; of xpk's environment only its waits of ten seconds are left out."""
    folder = tmp_path / "tools"
    folder.mkdir()
    real, copy = xpk_environment.folder, tmp_path / "cache" / "envs" / xpk_environment.folder.name
    (copy / "bin").mkdir(parents=True)
    for entry in real.iterdir():
        if entry.name != "bin":
            (copy / entry.name).symlink_to(entry)
    (copy / "bin" / "xpk").symlink_to(real / "bin" / "xpk")
    programs = {folder / "gcloud": GCLOUD, folder / "kubectl": KUBECTL, copy / "bin" / "python": PYTHON}
    for path, text in programs.items():
        path.write_text(text.format(folder=folder, python=sys.executable, real=xpk_environment.python, version=VERSION))
        path.chmod(0o755)
    (folder / "clusters.json").write_text("[]")
    (folder / "made.json").write_text(json.dumps([{**CLUSTERS[0], "name": "big"}]))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "mine"))
    with standing_in(tmp_path) as cluster:
        serving_xpk(cluster.standin)
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        (folder / "kubeconfig").write_text(yaml.safe_dump({**config, "current-context": cluster.context}))
        yield folder


def test_place_create_with_yes_runs_the_printed_commands(workload: str, tools: Path, tmp_path: Path) -> None:
    done = xsft("place", "create", workload, "--set", "tpu.num_slices=2", "--yes")
    assert done.returncode == 0, done.stderr
    first, *others, last = done.stdout.splitlines()
    ran = (tools / "calls").read_text().replace(VERSION, "0").splitlines()
    assert {line.removeprefix("# ") for line in others if line.startswith("# gcloud")} == {
        call for call in ran if " create " in call
    }
    assert "[XPK] GKE commands done! Resources are created." in done.stderr
    assert last.startswith("big: RUNNING, 2 x v6e-256")
    assert first.split()[3:6] == last.split()[-3:]
    assert not (tmp_path / "mine").exists()


def test_place_create_refuses_an_existing_cluster_name_before_xpk_starts(workload: str, tools: Path) -> None:
    (tools / "clusters.json").write_bytes((tools / "made.json").read_bytes())
    done = xsft("place", "create", workload, "--yes")
    assert done.returncode == 4
    assert "has a cluster big in us-east5 (RUNNING)" in done.stderr
    assert len((tools / "calls").read_text().splitlines()) == 1


def test_a_failure_of_xpk_is_its_exit_status_and_its_words(workload: str, tools: Path) -> None:
    (tools / "broken").touch()
    done = xsft("place", "create", workload, "--yes")
    assert done.returncode == 6
    assert "quota exceeded" in done.stderr
    assert "[xpk-failed]" in done.stderr
    assert "run the line yourself" in done.stderr


def test_ctrl_c_says_that_the_request_may_go_on_and_what_shows_it(workload: str, tools: Path) -> None:
    (tools / "slow").touch()
    argv = (sys.executable, "-m", "xsft", "place", "create", workload, "--yes")
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        until((tools / "creating").exists)
        os.killpg(process.pid, signal.SIGINT)
        _, output = process.communicate(timeout=60)
    assert process.returncode == 130
    looking = "`gcloud container clusters list --project=acme-tpus` shows what exists."
    assert output.splitlines()[-1].endswith(f"xpk was stopped; operations that it requested may continue. {looking}")
    assert "Traceback" not in output

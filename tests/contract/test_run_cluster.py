"""`xsft run FILE` for a cluster: the real xpk for rendering, a cluster and a bucket; each call finds what is done."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import chdir, suppress
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.checkpoints import small_files
from tests.contract.commandline import XSFT, Machine
from tests.documents import read_document
from tests.exports import written_by_pod
from tests.fakes.kubeapi import write_kubeconfig
from tests.faults.hostile import SERVERS, hostile
from tests.killing import Killed, dying
from tests.servers import IMAGE
from tests.slicejobs import measured_by_pod
from tests.until import until
from xsft.base.errors import UsageError
from xsft.base.reporting import Reporter, hear_nothing
from xsft.base.stage import to_json
from xsft.planning import api
from xsft.records.jobset_paths import DIGEST_ANNOTATION, WRITES_ANNOTATION
from xsft.spec.conversion_inputs import RECORD_FILE, ConversionRecord
from xsft.stages.cluster_job import ClusterCall, StageOnCluster
from xsft.stages.stage_list import stages_of

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("without_hub")]
STORY = "gemma2_ultrachat"
NAME = "gemma2-ultrachat"
CONVERT, EVALUATION, EXPORT, SERVER = (f"{NAME}-{stage}" for stage in ("convert", "evaluate", "export", "serve"))
TPU = {"type": "v6e-256", "num_slices": 1}
EVALUATE = {"prompts": ["What is 1 plus 1?"], "require": [{"prompt": 0, "matches": "is 2"}], "limit_s": 1800}


def run(
    here: Machine, *options: str, status: int = 0, stages: dict[str, Any] | None = None
) -> list[tuple[str, str, str | None]]:
    file = here.workload(STORY, stages=stages, tpu=TPU)
    done = here.xsft("run", file, "--json", "--poll", "1s", *options)
    assert done.returncode == status, done.stderr + done.stdout
    document = read_document("run", done.stdout)
    return [(stage["name"], stage["action"], stage["state"]) for stage in document["stages"]]


def converted(here: Machine, jobset: str = CONVERT, *, model: str = "gemma2-2b", end: str = "Completed") -> None:
    """Write what the conversion's pod would write."""
    jobset_object = here.api.world.jobsets()[jobset]
    annotations = jobset_object["metadata"]["annotations"]
    path = annotations[WRITES_ANNOTATION].removeprefix("gs://my-bucket/")
    here.bucket.objects |= {f"{path}/{name}": content for name, content in small_files(model).items()}
    record = ConversionRecord(digest=annotations[DIGEST_ANNOTATION], run_name=jobset, outcome="completed")
    here.bucket.objects[f"{path.removesuffix('/0/items')}/{RECORD_FILE}"] = to_json(record).encode()
    here.api.world.end(jobset, end)


def saved(here: Machine, *, steps: int, ends: bool = True) -> None:
    """Write what the trainer leaves at its end, with the weights that an export reads."""
    step = f"runs/{NAME}/checkpoints/{steps}"
    here.bucket.objects[f"{step}/commit_success.txt"] = b""
    weights = small_files("gemma2-2b").items()
    here.bucket.objects |= {f"{step}/model_params/{name}": content for name, content in weights}
    if ends:
        here.api.world.end(NAME, "Completed")


def measured(here: Machine, jobset: str, *, says: str = "1 plus 1 is 2.", end: str = "Completed") -> None:
    """Write what the first host of the evaluation would write."""
    jobset_object = here.api.world.jobsets()[jobset]
    path = jobset_object["metadata"]["annotations"][WRITES_ANNOTATION].removeprefix("gs://my-bucket/")
    here.bucket.objects[path] = measured_by_pod(jobset_object, says=says)
    here.api.world.end(jobset, end)


def test_each_call_starts_what_can_start_and_finds_what_is_done(here: Machine) -> None:
    assert run(here, "--no-wait") == [("convert", "created", "running"), ("train", "waiting", None)]
    assert run(here, "--no-wait") == [("convert", "adopted", "running"), ("train", "waiting", None)]
    converted(here)
    assert run(here, "--no-wait") == [("convert", "done", "done"), ("train", "created", "running")]
    assert run(here, "--no-wait") == [("convert", "done", "done"), ("train", "adopted", "running")]
    assert run(here, "--timeout", "1s", status=7) == [("convert", "done", "done"), ("train", "adopted", "running")]
    saved(here, steps=1000)
    assert run(here) == [("convert", "done", "done"), ("train", "done", "done")]
    assert len(here.jobsets) == 2
    evaluated_once_and_missed(here)
    exported_once(here)


def evaluated_once_and_missed(here: Machine) -> None:
    """A stage that is added later; another rule is another evaluation."""
    settings = {"stages": {"evaluate": EVALUATE}}
    before = [("convert", "done", "done"), ("train", "done", "done")]
    assert run(here, "--no-wait", **settings) == [*before, ("evaluate", "created", "running")]
    assert run(here, "--no-wait", **settings) == [*before, ("evaluate", "adopted", "running")]
    here.api.world.end(EVALUATION, "Failed")
    assert run(here, "--no-wait", **settings) == [*before, ("evaluate", "attempt", "running")]
    measured(here, f"{EVALUATION}-2", says="1 plus 1 is 3.")
    for _ in range(2):
        assert run(here, status=6, **settings) == [*before, ("evaluate", "done", "done")]
    (report,) = (json.loads(held) for path, held in here.bucket.objects.items() if path.endswith("/evaluation.json"))
    read_document("evaluation", report)
    assert report["judgement"]["verdict"] == "failed"
    (row,) = json.loads(here.xsft("status", EVALUATION, "--json").stdout)["runs"]
    assert (row["pipeline"], row["stage"], row["steps"]) == (NAME, "evaluate", None)


def exported(here: Machine, jobset: str = EXPORT, *, end: str = "Completed") -> str:
    """Write what the export's pod writes, and return the folder."""
    folder = written_by_pod(here.bucket, here.api.world.jobsets()[jobset])
    here.api.world.end(jobset, end)
    return folder


def exported_once(here: Machine) -> None:
    """Export by another job after the first one failed; both verbs find it until one of its files is deleted."""
    before = [("convert", "done", "done"), ("train", "done", "done")]
    assert run(here, "--no-wait", stages={"export": {}}) == [*before, ("export", "created", "running")]
    here.api.world.end(EXPORT, "Failed")
    assert run(here, "--no-wait", stages={"export": {}}) == [*before, ("export", "attempt", "running")]
    folder = exported(here, f"{EXPORT}-2")
    assert run(here, stages={"export": {}}) == [*before, ("export", "done", "done")]
    assert folder.startswith(f"gs://my-bucket/runs/{EXPORT}/")
    done = here.xsft("checkpoint", "export", here.workload(STORY, tpu=TPU), "--json")
    document = json.loads(done.stdout)
    assert (document["action"], document["folder"], document["job"]) == ("finished", folder, None)
    del here.bucket.objects[f"{folder.removeprefix('gs://my-bucket/')}/model.safetensors"]
    document = json.loads(
        here.xsft("checkpoint", "export", here.workload(STORY, tpu=TPU), "--json", "--dry-run").stdout
    )
    assert (document["action"], document["folder"]) == ("planned", f"{folder}-2")
    assert document["not_whole"] == [folder]


@pytest.mark.standin_only("walked")
def test_a_run_that_is_killed_before_each_write_continues_at_the_next_call(here: Machine) -> None:
    """Each call comes one write further than the one before it."""
    stages = {"evaluate": EVALUATE, "export": {}, "serve": {"image": IMAGE}}
    file = here.workload(STORY, stages=stages, tpu=TPU)

    def killed() -> int:
        """Return how many calls were killed before the first that completed."""
        for writes in count():
            with suppress(Killed), dying(after=writes):
                assert here.xsft("run", file, "--json", "--no-wait").returncode == 0
                return writes
            for jobset in (CONVERT, EVALUATION, EXPORT):
                found, *shown = said(here, file, jobset)
                is_done = found == "done"
                assert [state == "succeeded" for state in shown] == [is_done, is_done], (writes, jobset, shown)
        raise AssertionError

    assert killed() > 2
    converted(here)
    assert killed() > 2
    saved(here, steps=1000)
    assert killed() > 2
    measured(here, EVALUATION)
    assert killed() > 2
    exported(here)
    assert killed() > 2
    jobs = [CONVERT, NAME, EVALUATION, EXPORT]
    assert [jobset_object["metadata"]["name"] for jobset_object in here.jobsets] == jobs
    kinds = ("apps/deployments", "/services", "policy/poddisruptionbudgets")
    assert [name for kind in kinds for _, name in here.api.standin.objects.of(kind)] == [SERVER] * 3
    records = [name for name in here.bucket.objects if name.endswith("/attempt-1.json")]
    assert sorted(records) == sorted(f"runs/{name}/xsft/attempt-1.json" for name in (*jobs, SERVER))
    ends = {name for name in here.bucket.objects if name.endswith("/attempt-1.completed.json")}
    assert ends == {f"runs/{name}/xsft/attempt-1.completed.json" for name in (CONVERT, EVALUATION, EXPORT)}
    assert not [name for name in here.bucket.objects if "/attempt-2" in name]


def stage_on(file: Path, jobset: str) -> StageOnCluster[Any]:
    call = ClusterCall(ask=None, poll_s=0.1, listener=Reporter())
    stages = stages_of(api.load(str(file)), run_name=NAME, call=call)
    return next(
        cluster_stage
        for cluster_stage in stages
        if isinstance(cluster_stage, StageOnCluster) and cluster_stage.run_name == jobset
    )


def said(here: Machine, file: Path, jobset: str) -> tuple[str, str | None, str | None]:
    """What the files say of a job, which `xsft run` prints, and what `xsft status` and `xsft why` say."""
    job_state = "missing"
    with patch.dict(os.environ, here.env, clear=True), chdir(here.folder), suppress(UsageError):
        job = stage_on(file, jobset).job
        job_state = job.found(job.look()).state
    rows = json.loads(here.xsft("status", jobset, "--json").stdout).get("runs") or [{"state": None}]
    return job_state, rows[0]["state"], json.loads(here.xsft("why", jobset, "--json").stdout).get("state")


@pytest.mark.standin_only("walked")
@pytest.mark.parametrize(("jobset", "end_pod"), [(CONVERT, converted), (EVALUATION, measured), (EXPORT, exported)])
def test_a_pod_that_is_killed_after_its_result_was_complete_has_done_its_job(
    here: Machine, jobset: str, end_pod: Callable[..., object]
) -> None:
    """Its files say so to `xsft status` and `xsft why` before `xsft run` has looked."""
    file = here.workload(STORY, stages={"evaluate": EVALUATE, "export": {}}, tpu=TPU)
    saved(here, steps=1000, ends=False)
    with patch.dict(os.environ, here.env, clear=True), chdir(here.folder):
        stage_on(file, jobset).perform(hear_nothing)
        end_pod(here, jobset, end="Failed")
    assert said(here, file, jobset) == ("done", "succeeded", "succeeded")


@pytest.mark.standin_only("no-request")
@pytest.mark.parametrize("name", ["100-Continue-for-ever", "a-byte-of-the-body-now-and-then"])
def test_run_says_what_it_waits_for_and_ends_at_its_timeout(here: Machine, name: str) -> None:
    with hostile({name: SERVERS[name]}) as addresses:
        here.env["KUBECONFIG"] = str(write_kubeconfig(here.folder / "config", server=addresses[name], token="t"))
        began = time.monotonic()
        done = here.xsft("run", here.workload(STORY, stages=None, tpu=TPU), "--timeout", "20s")
    assert done.returncode == 7, done.stderr
    assert time.monotonic() - began < 40  # without a limit 120 s
    assert re.search(r"waiting for the cluster \S+, at most \d+ s", done.stderr)


@pytest.mark.standin_only("walked")
def test_ctrl_c_ends_the_watching_only_and_a_failed_training_ends_the_next_call(here: Machine) -> None:
    argv = (str(XSFT), "run", str(here.workload(STORY, stages=None, tpu=TPU)), "--json", "--poll", "1s")
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True}
    log = here.folder / "stderr.txt"
    with (
        log.open("w", encoding="utf-8") as stderr,
        subprocess.Popen(argv, env=here.env, cwd=here.folder, stderr=stderr, **streams) as process,
    ):
        until(lambda: "queued" in log.read_text(encoding="utf-8"))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
    assert process.returncode == 130
    assert f"{CONVERT} is unaffected and continues" in log.read_text(encoding="utf-8")
    with subprocess.Popen(argv, env=here.env, cwd=here.folder, **streams) as process:
        converted(here)
        until(lambda: NAME in here.api.world.jobsets())
        here.api.world.end(NAME, "Failed")
        output, _ = process.communicate(timeout=300)
    document = json.loads(output)
    assert (process.returncode, document["exit_status"]) == (6, 6)
    assert document["stages"][0]["state"] == "done"
    assert [(stage_row["action"], stage_row["state"]) for stage_row in document["stages"][1:]] == [
        ("created", "failed")
    ]

"""`xsft checkpoint convert FILE` for a cluster: the real xpk for rendering, a cluster and a bucket."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.checkpoints import small_files
from tests.cluster.test_cluster import CREATE
from tests.contract.commandline import XSFT, Machine
from tests.documents import read_document
from tests.until import until
from xsft.records.jobset_paths import WRITES_ANNOTATION

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("without_hub")]
STORY = "gemma2_ultrachat"
NAME = "gemma2-ultrachat-convert"


def convert(here: Machine, *options: str, **changes: Any) -> dict[str, Any]:
    file = here.workload(STORY, **changes)
    done = here.xsft("checkpoint", "convert", file, "--json", *options)
    assert done.returncode == 0, done.stderr + done.stdout
    return read_document("checkpoint-convert", done.stdout)


def folder_of(document: dict[str, Any]) -> str:
    """Return the conversion's folder in the bucket."""
    return str(document["checkpoint"]).removeprefix("gs://my-bucket/")


def test_convert_creates_the_manifest_of_the_dry_run_once_and_adopts_it(here: Machine) -> None:
    shown = convert(here, "--dry-run")
    assert (shown["action"], here.jobsets) == ("planned", [])
    first = convert(here)
    (create,) = here.api.server.asked(CREATE)
    assert create.body == shown["job"]["manifest"]
    here.bucket.objects[f"{folder_of(first)}/half"] = b"the pod is writing"
    second = convert(here)
    assert [first["action"], second["action"]] == ["created", "adopted"]
    assert first["checkpoint"] == second["checkpoint"] == shown["checkpoint"]
    assert first["job"]["uid"] == second["job"]["uid"]
    (status,) = json.loads(here.xsft("status", NAME, "--json").stdout)["runs"]
    assert (status["jobset"], status["steps"]) == (NAME, None)


def test_two_run_names_of_one_conversion_create_one_job(here: Machine) -> None:
    """Same weights, same output: the second is told whose conversion it is."""
    file = str(here.workload(STORY))
    names = ("one", "two")
    started = [here.start("checkpoint", "convert", file, "--run-name", name, "--json") for name in names]
    documents = [json.loads(process.communicate(timeout=300)[0]) for process in started]
    assert [process.returncode for process in started] == [0, 0], documents
    assert sorted(document["action"] for document in documents) == ["adopted", "created"]
    (jobset,) = here.jobsets
    assert {document["job"]["uid"] for document in documents} == {jobset["metadata"]["uid"]}
    assert {document["checkpoint"] for document in documents} == {jobset["metadata"]["annotations"][WRITES_ANNOTATION]}
    (owner,) = {document["owner"]["run_name"] for document in documents}
    assert owner == jobset["metadata"]["name"]


def test_a_claim_of_a_dead_job_is_redone_at_a_new_path(here: Machine) -> None:
    first = convert(here)
    here.bucket.objects[f"{folder_of(first)}/half"] = b"it was cut off"
    here.api.world.end(NAME, "Failed")
    again = convert(here, "--run-name", "other")
    assert (again["action"], again["run_name"], again["job"]["jobset"]) == ("attempt", NAME, f"{NAME}-2")
    assert again["owner"]["training"] == "gemma2-ultrachat"
    assert again["checkpoint"] == first["checkpoint"].replace("/0/items", "-2/0/items")


def test_convert_retries_a_failed_job_finds_the_result_and_records_both_ends(here: Machine) -> None:
    first = convert(here)
    here.bucket.objects[f"{folder_of(first)}/half"] = b"it was cut off"
    here.api.world.end(NAME, "Failed")
    again = convert(here)
    assert (again["action"], again["job"]["jobset"]) == ("attempt", f"{NAME}-2")
    assert again["checkpoint"] == first["checkpoint"].replace("/0/items", "-2/0/items")
    assert again["not_whole"] == [first["checkpoint"].removesuffix("/0/items")]
    files = small_files("gemma2-2b")
    here.bucket.objects |= {f"{folder_of(again)}/{name}": content for name, content in files.items()}
    here.api.world.end(f"{NAME}-2", "Completed")
    found = convert(here)
    assert (found["action"], found["checkpoint"], found["job"]) == ("finished", again["checkpoint"], None)
    assert outcomes(here) == ["failed", "completed"]


def test_convert_wait_ends_with_the_checkpoint_and_records_it(here: Machine) -> None:
    options = ("--json", "--wait", "--poll=1s", "--timeout=5m")
    argv = (str(XSFT), "checkpoint", "convert", str(here.workload(STORY)), *options)
    with subprocess.Popen(argv, env=here.env, cwd=here.folder, stdout=subprocess.PIPE, text=True) as process:
        until(lambda: any(f"{NAME}/xsft/" in name for name in tuple(here.bucket.objects)) and here.jobsets)
        (jobset,) = here.jobsets
        path = jobset["metadata"]["annotations"][WRITES_ANNOTATION].removeprefix("gs://my-bucket/")
        here.bucket.objects |= {f"{path}/{name}": content for name, content in small_files("gemma2-2b").items()}
        here.api.world.end(NAME, "Completed")
        output, _ = process.communicate(timeout=300)
    document = read_document("checkpoint-convert", output)
    assert (process.returncode, document["exit_status"], document["run"]["state"]) == (0, 0, "succeeded")
    assert outcomes(here) == ["completed"]


def outcomes(here: Machine) -> list[str]:
    """Return the outcome of each attempt, by its record and what was learnt later."""
    ends = {}
    for path, content in sorted(here.bucket.objects.items()):
        if f"/{NAME}/xsft/attempt-" in f"/{path}" and "outcome" in (printed := json.loads(content)):
            ends[path.partition("attempt-")[2][0], printed["outcome"]] = None
    return [outcome for _, outcome in ends if outcome in ("completed", "failed")]


@pytest.mark.standin_only("no-request")
def test_convert_dry_run_prints_the_plan_as_text(here: Machine) -> None:
    done = here.xsft("checkpoint", "convert", here.workload(STORY), "--dry-run")
    assert done.returncode == 0, done.stderr
    shown = done.stdout
    assert "converts    google/gemma-2-2b for gemma2-2b" in shown
    assert "xpk workload create \\\n" in shown
    assert "--device-type=n2-standard-4-1" in shown
    assert "12Gi of memory" not in done.stderr


@pytest.mark.standin_only("no-request")
def test_a_plan_on_a_slice_prints_the_wasted_chips(here: Machine) -> None:
    shown = convert(here, "--on-tpu", "--dry-run")
    assert (shown["job"]["tpu"], shown["job"]["chips"]) == ("v6e-8", 8)
    assert {problem["id"] for problem in shown["problems"]} >= {"conversion-on-tpu"}
    text = here.xsft("checkpoint", "convert", here.workload(STORY), "--on-tpu", "--dry-run").stdout
    assert "wasted      8 chips, until the conversion ends" in text

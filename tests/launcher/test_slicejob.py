"""The JobSet of an evaluation on the training's slices; contract tests render it with the real xpk."""

from __future__ import annotations

import json

from tests.launcher.decoding import decode_command
from tests.replacing import replace
from tests.slicejobs import NAME, job, planned
from xsft.launcher.encoding import command_in_wrapper
from xsft.planning.planner import job_rendering
from xsft.trainer.tokenizer_copy import FOLDER
from xsft.workers.delivery import programs_digest


def test_every_requested_value_of_a_slice_job_is_in_its_manifest() -> None:
    plan = planned()
    assert {row.outcome for row in plan.audit} == {"landed", "patched"}
    assert plan.problems == ()
    assert "xpk has no time limit for a workload" in plan.by_hand


def test_a_slice_job_takes_the_slices_of_the_training_and_ends_at_its_limit() -> None:
    plan = planned()
    spec = (plan.manifest or {})["spec"]
    (slices,) = spec["replicatedJobs"]
    assert (slices["replicas"], slices["template"]["spec"]["parallelism"]) == (1, 2)
    assert slices["template"]["spec"]["activeDeadlineSeconds"] == 1800
    assert spec["failurePolicy"]["maxRestarts"] == 10
    assert "DeadlineExceeded" in spec["failurePolicy"]["rules"][0]["onJobFailureReasons"]
    labels = (plan.manifest or {})["metadata"]["labels"]
    assert (labels["xsft.dev/run"], labels["xsft.dev/work"]) == (NAME, "evaluate")


def test_each_host_receives_the_program_and_its_job_byte_for_byte() -> None:
    plan = planned()
    pod = (plan.manifest or {})["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    _, argv = decode_command(command_in_wrapper(pod["containers"][0]["command"][2]))
    assert argv == plan.job.argv
    document = json.loads(argv[3])
    assert (document["module"], document["notes"]["prompts"][0][0]["content"]) == (
        "xsft.workers.evaluation_container",
        "What is 1 plus 1?",
    )
    noted = document["notes"]["noted"]
    assert (noted["digest"], noted["worker"], noted["run_name"]) == (plan.spec_digest, plan.job.program, NAME)
    assert argv[4] == plan.job.writes
    assert [model["name"] for model in document["notes"]["models"]] == ["base", "tuned"]


def test_the_programs_text_is_in_the_command_only_if_the_image_carries_another() -> None:
    carried = job()
    named = json.loads(carried.argv[3])
    assert (named["sha256"], named["archive"]) == (programs_digest(), "/usr/share/xsft/programs/evaluate.zip")
    assert "files" not in named
    older = replace(carried, run=replace(carried.run, evaluation_program="0" * 64))
    printed = json.loads(older.argv[3])
    assert (carried.is_carried, older.is_carried) == (True, False)
    assert "measure_weights.py" in printed["files"]
    assert (printed["notes"], older.digest) == (named["notes"], carried.digest)


def test_the_copied_tokenizer_of_the_training_is_made_on_each_host_too() -> None:
    process = job(model__pad_token="<|vision_pad|>").argv
    assert process[:2] == ("python3", "-c")
    assert process[6] == FOLDER
    assert process[7] == "-c"


def test_a_later_attempt_of_a_slice_job_has_another_name_and_the_same_work() -> None:
    first = job()
    second = first.attempt(2)
    assert (second.run.jobset, second.run.run_name) == (f"{NAME}-2", NAME)
    assert (second.plan, second.digest) == (first.plan, first.digest)
    assert second.argv[3].replace("/attempt-2", "/attempt-1").replace('"attempt":2', '"attempt":1') == first.argv[3]
    assert f"--workload={NAME}-2" in (job_rendering(second).xpk_argv or ())

"""An evaluation as a job on a training's slices, and its plan."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.launcher.decoding import decode_command
from tests.stories import ROOT, intent_of, spec_of, varied
from xsft.evaluation.inputs import EvaluationPlan
from xsft.evaluation.trainer_plan import evaluation_plan
from xsft.launcher.encoding import command_in_wrapper
from xsft.launcher.slicejob import SliceJob, evaluation_job
from xsft.planning.planner import job_rendering, make_job_plan
from xsft.planning.steps import Intent, JobPlan
from xsft.spec.yamltext import load_yaml
from xsft.workers.evaluation_container import evaluation_document, judged

STORY = "qwen3_gsm8k"
NAME = "qwen3-gsm8k-evaluate"
GOLDEN = ROOT / "tests" / "golden" / f"{STORY}.manifest.yaml"
STAGES = {"evaluate": {"prompts": ["What is 1 plus 1?"], "require": [{"prompt": 0, "matches": "2"}], "limit_s": 1800}}


def job(**changes: Any) -> SliceJob:
    """`changes`: of the workload, by dotted key with `__` for the dot."""
    intent = _intent(**changes)
    return evaluation_job(evaluation(intent), intent.run, limit_s=1800)


def evaluation(intent: Intent) -> EvaluationPlan:
    return evaluation_plan(intent.run, digest=intent.spec_digest)


def _intent(**changes: Any) -> Intent:
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    return intent_of(varied(spec_of(STORY), {"stages": STAGES, **dotted}))


def planned(**changes: Any) -> JobPlan[SliceJob]:
    """Return a plan rendered from the golden manifest of the training; patches are applied to it again."""
    slice_job = job(**changes)
    text = GOLDEN.read_text(encoding="utf-8")
    rendered = load_yaml(re.sub(r": qwen3-gsm8k$", f": {slice_job.run.jobset}", text, flags=re.MULTILINE))
    pod = rendered["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    script = container["command"][2]
    container["command"][2] = script.replace(command_in_wrapper(script), slice_job.command)
    return make_job_plan(slice_job, rendered=rendered, xpk_argv=job_rendering(slice_job).xpk_argv, file="w.yaml")


def measured_by_pod(jobset: dict[str, Any], *, says: str) -> bytes:
    """Return what the first host of an evaluation's JobSet would write, if each answer were `says`."""
    pod = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    _, argv = decode_command(command_in_wrapper(pod["containers"][0]["command"][2]))
    job = json.loads(argv[3])["notes"]
    answer = {"tokens": [1], "text": says, "ended": "stop", "prompt_cut": False}
    weights = {"answers": [answer] * len(job["prompts"]), "loss": None, "targets": 0, "rows": 0}
    measured = {"prompts": job["prompts"], "models": {"base": weights, "tuned": weights}}
    return json.dumps(evaluation_document(measured, judged(measured, job["rules"]), job["noted"])).encode()

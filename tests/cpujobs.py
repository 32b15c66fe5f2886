"""A conversion as a CPU job, and its plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.stories import ROOT, intent_of, spec_of, varied
from xsft.catalog.machines import GIB
from xsft.environments import render
from xsft.launcher.cpujob import CpuJob, cpu_job_run
from xsft.launcher.encoding import command_in_wrapper
from xsft.planning.planner import job_rendering, make_job_plan
from xsft.planning.steps import JobPlan
from xsft.spec.conversion_inputs import ConversionInputs, ConversionSource
from xsft.spec.yamltext import load_yaml

Key = TypeVar("Key")
STORY = "gemma2_ultrachat"
NAME = "gemma2-ultrachat-convert"
WRITES = "gs://my-bucket/runs/converted/gemma2-2b-0123456789ab/0/items"
INPUTS = ConversionInputs(
    source=ConversionSource(repo="google/gemma-2-2b"),
    model="gemma2-2b",
    release="0.2.5",
    scan_layers=True,
    param_scan_axis=1,
)
GOLDEN = ROOT / "tests" / "golden" / f"{STORY}.convert.yaml"
SLICE_GOLDEN = GOLDEN.with_name(f"{STORY}.convert-on-tpu.yaml")


def job(
    *,
    attempt: int = 1,
    namespace: str = "default",
    digest: str = "ab" * 32,
    memory: int = 12 * GIB,
    disk: int = 8 * GIB,
    name: str = NAME,
    on_tpu: bool = False,
    **changes: Any,
) -> CpuJob:
    """`changes`: of the workload, by dotted key with `__` for the dot."""
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    run = intent_of(varied(spec_of(STORY), {"namespace": namespace, **dotted})).run
    return CpuJob(
        work="convert",
        run=cpu_job_run(run, run_name=name, attempt=attempt, on_tpu=on_tpu),
        training=run.run_name,
        digest=digest,
        argv=("python3", "-m", "maxtext.checkpoint_conversion.to_maxtext", "model_name=gemma2-2b", "a=b c '$X'"),
        memory=memory,
        disk=disk,
        writes=WRITES,
        inputs=INPUTS,
    )


def planned(**settings: Any) -> JobPlan[CpuJob]:
    """Return a plan rendered from the golden manifest, without a call of xpk; patches are applied to it again."""
    cpu_job = job(**settings)
    return plan_of(cpu_job, golden=SLICE_GOLDEN if cpu_job.on_tpu else GOLDEN)


def plan_of(cpu_job: CpuJob, *, golden: Path = GOLDEN) -> JobPlan[CpuJob]:
    text = golden.read_text(encoding="utf-8")
    rendered = load_yaml(re.sub(rf": {NAME}$", f": {cpu_job.run.jobset}", text, flags=re.MULTILINE))
    (container,) = rendered["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    script = container["command"][2]
    container["command"][2] = script.replace(command_in_wrapper(script), cpu_job.command)
    return make_job_plan(cpu_job, rendered=rendered, xpk_argv=job_rendering(cpu_job).xpk_argv, file="w.yaml")


def rendered_plans(jobs: Mapping[Key, Any], *, python: Path, cache: Path) -> dict[Key, Any]:
    """Return the plans of the jobs; the real xpk renders all of them in one process."""
    lines: dict[Key, Any] = {key: job_rendering(cpu_job).xpk_argv for key, cpu_job in jobs.items()}
    distinct = tuple(dict.fromkeys(lines.values()))
    texts = render.render(distinct, python=python, lock_digest="tests", cache=cache)
    rendered = {line: yaml.safe_load(text) for line, text in zip(distinct, texts, strict=True)}
    return {
        key: make_job_plan(cpu_job, rendered=rendered[lines[key]], xpk_argv=lines[key], file="w.yaml")
        for key, cpu_job in jobs.items()
    }


def pod_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod template of the job, without its metadata."""
    (replicated,) = manifest["spec"]["replicatedJobs"]
    return dict(replicated["template"]["spec"]["template"]["spec"])

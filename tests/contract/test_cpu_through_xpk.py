"""A conversion, rendered by the real xpk: one golden manifest, and everything that was asked for is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cpujobs import STORY, job, pod_of, rendered_plans
from tests.goldens import Golden
from tests.launcher.decoding import decode_command
from xsft.catalog.machines import GIB, cpu_types
from xsft.launcher.cpujob import CpuJob
from xsft.launcher.encoding import command_in_wrapper
from xsft.planning.steps import JobPlan
from xsft.workers.delivery import programs_digest

pytestmark = pytest.mark.contract

SIZES = {"12Gi": 12 * GIB, "100Gi": 100 * GIB, "240Gi": 240 * GIB, "1300Gi": 1300 * GIB, "2300Gi": 2300 * GIB}
"""One for each machine that xpk names, and one that is too large for all."""


@pytest.fixture(scope="module")
def plans(xpk_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, JobPlan[CpuJob]]:
    """Return the plans by name; all rendered in one process."""
    jobs = {name: job(memory=memory, disk=memory) for name, memory in SIZES.items()}
    jobs |= {mode: job(mode=mode, **settings) for mode, settings in MODES.items()}
    jobs["all"] = job(**EVERYTHING)
    jobs |= {f"tpu-{name}": job(on_tpu=True, **settings) for name, settings in SLICES.items()}
    return rendered_plans(jobs, python=xpk_python, cache=tmp_path_factory.mktemp("renders"))


SLICES: dict[str, dict[str, Any]] = {
    "v6e-256": {"tpu": {"type": "v6e-256", "num_slices": 2}, "disk": 100 * GIB, "memory": 100 * GIB},
    "spot": {"tpu": {"type": "v6e-4", "capacity": "spot"}},
}
"""Of a training on two slices, and of one on spot capacity."""
MODES: dict[str, dict[str, Any]] = {
    "mcjax": {},
    "pathways": {"pathways": {"proxy_image": "p:1", "server_image": "s:1", "scratch": "gs://my-bucket/s"}},
}
EVERYTHING: dict[str, Any] = {
    "priority": "high",
    "ttl_seconds_after_finished": 60,
    "image__pull_secret": "registry",
    "env": {"HTTPS_PROXY": "http://proxy:3128", "XLA_FLAGS": "--xla_tpu_x=1", "QUOTED": 'a "b" $C \\'},
    "queue": "other",
}


def test_the_manifest_of_a_cpu_job_is_the_golden_manifest(plans: dict[str, JobPlan[CpuJob]], golden: Golden) -> None:
    golden.check(f"{STORY}.convert.yaml", as_text(plans["mcjax"]))


def test_the_manifest_of_a_conversion_on_a_slice_is_the_golden_manifest(
    plans: dict[str, JobPlan[CpuJob]], golden: Golden
) -> None:
    golden.check(f"{STORY}.convert-on-tpu.yaml", as_text(plans["tpu-v6e-256"]))


def as_text(plan: JobPlan[CpuJob]) -> str:
    """The manifest, without the digest of the programs that its image carries."""
    text = yaml.safe_dump(plan.manifest, sort_keys=False, width=120)
    return text.replace(programs_digest(), "sha256 of the programs of pods")


def test_a_cpu_job_has_the_same_manifest_in_both_modes(plans: dict[str, JobPlan[CpuJob]]) -> None:
    assert plans["pathways"].manifest == plans["mcjax"].manifest


@pytest.mark.parametrize("name", [*SIZES, *MODES, "all", "tpu-v6e-256", "tpu-spot"])
def test_the_audit_of_a_cpu_job_finds_every_field(plans: dict[str, JobPlan[CpuJob]], name: str) -> None:
    assert {row.outcome for row in plans[name].audit} == {"landed", "patched"}
    assert plans[name].problems == ()


@pytest.mark.parametrize("name", [*SIZES, "all"])
def test_the_container_of_a_cpu_job_has_the_planned_command(plans: dict[str, JobPlan[CpuJob]], name: str) -> None:
    job_plan = plans[name]
    script = _container(job_plan)["command"][2]
    assert decode_command(command_in_wrapper(script)) == ((), job_plan.job.process)
    assert job_plan.job.process[4:] == job_plan.job.argv


def test_the_machine_type_follows_from_the_memory(plans: dict[str, JobPlan[CpuJob]]) -> None:
    flags = [next(a for a in plans[name].xpk_argv or () if a.startswith("--device-type=")) for name in SIZES]
    names = [cpu_type.name for cpu_type in cpu_types()]
    assert flags == [f"--device-type={name}" for name in (*names, names[-1])]


@pytest.mark.parametrize("name", SIZES)
def test_a_cpu_job_requests_and_limits_memory_and_no_disk(plans: dict[str, JobPlan[CpuJob]], name: str) -> None:
    resources = _container(plans[name])["resources"]
    assert resources["requests"]["memory"] == resources["limits"]["memory"] == name
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == {"memory"}


def test_settings_of_slices_are_removed_from_a_cpu_job(plans: dict[str, JobPlan[CpuJob]]) -> None:
    manifest = plans["mcjax"].manifest or {}
    pod = pod_of(plans["mcjax"].manifest or {})
    assert not any("exclusive-topology" in key for key in manifest["metadata"]["annotations"])
    assert "imagePullSecrets" not in pod
    assert "securityContext" not in _container(plans["mcjax"])
    assert pod["hostNetwork"] is True


def test_a_conversion_on_tpu_takes_one_whole_slice_and_only_quota_of_chips(plans: dict[str, JobPlan[CpuJob]]) -> None:
    tpu_v6e_256 = plans["tpu-v6e-256"]
    assert {"--tpu-type=v6e-256", "--num-slices=1"} <= set(tpu_v6e_256.xpk_argv or ())
    (replicated,) = (tpu_v6e_256.manifest or {})["spec"]["replicatedJobs"]
    assert (replicated["replicas"], replicated["template"]["spec"]["parallelism"]) == (1, 64)
    assert _container(tpu_v6e_256)["resources"] == {"limits": {"google.com/tpu": 4}}
    assert "securityContext" not in _container(tpu_v6e_256)
    assert "exclusive-topology" in str(tpu_v6e_256.manifest)
    env = {volume["name"]: volume.get("value") for volume in _container(tpu_v6e_256)["env"]}
    assert env["JAX_PLATFORMS"] == "cpu"
    (scratch,) = [
        volume for volume in pod_of(tpu_v6e_256.manifest or {})["volumes"] if volume["name"] == "xsft-scratch"
    ]
    assert scratch["emptyDir"] == {"medium": "Memory"}  # no disk for each of 64 hosts
    assert pod_of(plans["tpu-spot"].manifest or {})["nodeSelector"]["cloud.google.com/gke-spot"] == "true"


def test_a_cpu_job_gets_no_xla_flags_and_the_cpu_platform(plans: dict[str, JobPlan[CpuJob]]) -> None:
    env = {variable["name"]: variable.get("value") for variable in _container(plans["all"])["env"]}
    assert "XLA_FLAGS" not in env
    assert env["QUOTED"] == 'a "b" $$C \\'
    assert env["JAX_PLATFORMS"] == "cpu"


def _container(job_plan: JobPlan[CpuJob]) -> dict[str, Any]:
    (container,) = pod_of(job_plan.manifest or {})["containers"]
    return dict(container)

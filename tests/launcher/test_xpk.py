from __future__ import annotations

from typing import Any

import pytest

from tests.everything import everything
from tests.launcher.decoding import decode_command
from xsft.base.names import ModeName
from xsft.checks.facts import Facts
from xsft.launcher.encoding import pathways_args_problem
from xsft.launcher.xpk import xpk_argv
from xsft.spec.resolve import Run, resolve
from xsft.trainer.maxtext import trainer_argv

MODES: tuple[ModeName, ...] = ("mcjax", "pathways")


def _run(mode: ModeName = "mcjax", *, attempt: int = 1, **fields: Any) -> Run:
    return resolve(everything(mode=mode, **fields), Facts(attempt=attempt))[0]


def _flags(run: Run) -> dict[str, str]:
    pairs = (argument.partition("=") for argument in xpk_argv(run)[3:] if not argument.startswith("--env="))
    return {flag: value for flag, _, value in pairs}


@pytest.mark.parametrize(("mode", "verb"), [("mcjax", "create"), ("pathways", "create-pathways")])
def test_the_mode_decides_the_verb_of_xpk(mode: ModeName, verb: str) -> None:
    assert xpk_argv(_run(mode))[:3] == ("xpk", "workload", verb)


@pytest.mark.parametrize("mode", MODES)
def test_each_flag_is_one_argument_and_given_once(mode: ModeName) -> None:
    """`--flag=value`: a value that starts with a dash is still a value."""
    arguments = xpk_argv(_run(mode))[3:]
    names = [a.partition("=")[0] for a in arguments if not a.startswith("--env=")]
    assert all(a.startswith("--") and "=" in a for a in arguments)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("mode", MODES)
def test_the_tutorials_commands_are_reproduced(mode: ModeName) -> None:
    flags = _flags(_run(mode, place__context=None))
    assert flags["--cluster"] == "my-cluster"
    assert flags["--project"] == "my-project"
    assert flags["--zone"] == "us-east5-b"
    assert flags["--docker-image"] == "my.dev/image:1"
    assert flags["--workload"] == "everything-19700101"
    assert flags["--tpu-type"] == "v6e-16"
    assert flags["--num-slices"] == "2"


@pytest.mark.parametrize("mode", MODES)
def test_the_command_is_the_last_flag_and_decodes_to_the_trainer(mode: ModeName) -> None:
    run = _run(mode)
    last = xpk_argv(run)[-1]
    assert last.startswith("--command=")
    assert decode_command(last.removeprefix("--command="))[1] == trainer_argv(run)


def test_mcjax_passes_restarts_pull_secret_priority_and_namespace_as_flags() -> None:
    flags = _flags(_run("mcjax"))
    assert flags["--max-restarts"] == "3"
    assert flags["--restart-on-exit-codes"] == "1,17"
    assert flags["--ttl-seconds-after-finished"] == "60"
    assert flags["--docker-image-pull-secret"] == "my-pull-secret"
    assert flags["--termination-grace-period-seconds"] == "120"
    assert flags["--priority"] == "high"
    assert flags["--namespace"] == "team-c"


def test_pathways_passes_no_flag_that_xpk_ignores() -> None:
    ignored = {
        "--max-restarts",
        "--restart-on-exit-codes",
        "--ttl-seconds-after-finished",
        "--docker-image-pull-secret",
    }
    assert ignored.isdisjoint(_flags(_run("pathways")))


def test_pathways_servers_and_arguments_become_flags() -> None:
    flags = _flags(_run("pathways"))
    assert flags["--proxy-server-image"] == "my.dev/proxy:1"
    assert flags["--server-image"] == "my.dev/server:1"
    assert flags["--pathways-gcs-location"] == "gs://my-bucket/scratch"
    assert flags["--custom-pathways-server-args"] == "--server=1"
    assert flags["--custom-pathways-worker-args"] == "--worker=1"
    proxy = flags["--custom-pathways-proxy-server-args"].split(" ")
    assert proxy == ["--proxy=1", "--xla_tpu_enable_async_collective_fusion=true", "--xla_tpu_scoped_vmem_limit_kib=2"]
    assert [token for token in proxy if pathways_args_problem(token)] == []


def test_several_arguments_of_a_pathways_server_are_one_flag() -> None:
    several = {"pathways__server_args": ["--a=1", "--b=2"], "pathways__worker_args": ["--c=1", "--d=2"]}
    flags = _flags(_run("pathways", **several))
    assert flags["--custom-pathways-server-args"] == "--a=1 --b=2"
    assert flags["--custom-pathways-worker-args"] == "--c=1 --d=2"


def test_a_workload_without_pathways_servers_takes_those_of_its_place() -> None:
    images = _run("pathways", pathways=None).servers
    assert images.proxy_image == "my.dev/place-proxy:1"
    assert images.server_image == "my.dev/place-server:1"
    assert images.scratch == "gs://my-bucket/place-scratch"


def test_defaults_of_xpk_are_not_repeated() -> None:
    fields: dict[str, Any] = {"restarts": None, "ttl_seconds_after_finished": None, "priority": None}
    flags = _flags(_run("mcjax", image__pull_secret=None, namespace=None, place__namespace=None, **fields))
    assert set(flags) == {
        *("--cluster", "--project", "--zone", "--docker-image", "--workload", "--tpu-type", "--num-slices", "--command")
    }


def test_a_context_gets_a_stand_in_cluster_and_zone() -> None:
    flags = _flags(_run(place={"context": "my-context"}))
    assert flags["--cluster"]
    assert flags["--zone"]
    assert "--project" not in flags
    assert "my-context" not in str(xpk_argv(_run(place={"context": "my-context"})))


def test_a_later_attempt_is_another_workload_of_the_same_run() -> None:
    flags = _flags(_run(attempt=2))
    assert flags["--workload"] == "everything-19700101-2"
    assert "run_name=everything-19700101 " in flags["--command"]


@pytest.mark.parametrize("mode", MODES)
def test_environment_values_are_encoded_for_xpks_yaml(mode: ModeName) -> None:
    (value,) = [a for a in xpk_argv(_run(mode)) if a.startswith("--env=NAME=")]
    assert value == "--env=NAME=a $$(value) with: \\\"env\\x3a\\\" and 'quotes'"


def test_no_planned_xpk_line_has_quiet_dry_run_or_manifest_flags() -> None:
    assert not any(a.startswith(("--quiet", "--dry-run", "--output-manifest")) for a in xpk_argv(_run()))

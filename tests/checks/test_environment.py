"""Checks of environment variables, TPU flags and XLA flags."""

from __future__ import annotations

import pytest

from tests.checks.factory import FLAGSHIP, ids, problems, spec
from xsft.checks.environment import check


def test_environment_names_of_libtpu_have_no_problem():
    assert ids(check, spec(env={"TPU_STDERR_LOG_LEVEL": "0", "MEGASCALE_GRPC_ENABLE_XOR_TRACER": "false"})) == set()


@pytest.mark.parametrize(
    ("name", "mode", "expected"),
    [
        ("JAX_PLATFORMS", "pathways", {"env-reserved"}),
        ("JAX_PLATFORMS", "mcjax", {"env-other-mode"}),
        ("JAX_BACKEND_TARGET", "mcjax", {"env-other-mode"}),
        ("MEGASCALE_NUM_SLICES", "mcjax", {"env-reserved"}),
        ("TPU_WORKER_ID", "pathways", {"env-reserved"}),
        ("JOB_COMPLETION_INDEX", "mcjax", {"env-reserved"}),
        ("JAX_LOCAL_DEVICE_IDS", "mcjax", {"env-reserved"}),
        ("JAX_COORDINATOR_ADDRESS", "pathways", set()),
        ("TPU_PROCESS_ADDRESSES", "mcjax", {"env-reserved"}),
        ("BASHOPTS", "mcjax", {"env-name"}),
        ("date", "mcjax", {"env-name"}),
        ("HF_TOKEN_PATH", "mcjax", set()),
    ],
)
def test_reserved_environment_names_are_refused(name: str, mode: str, expected: set[str]):
    workload = spec({**FLAGSHIP, "mode": mode}, env={name: "/a"})
    assert ids(check, workload) == expected
    assert ids(check, workload.model_copy(update={"target": "local"})) == set()


def test_hf_token_path_is_reserved_if_a_secret_is_mounted():
    secret = {"hf_token": {"secret": "hub", "key": "token"}}
    assert ids(check, spec(env={"HF_TOKEN_PATH": "/a"}, secrets=secret)) == {"env-reserved"}
    assert ids(check, spec(secrets=secret)) == set()


def test_values_that_no_environment_can_hold_are_refused():
    (problem,) = problems(check, spec(env={"A": "a\0b"}))
    assert (problem.id, problem.where) == ("env-value", "env.A")
    assert ids(check, spec(env={"A": "a" * 131_000})) == {"env-value"}
    assert ids(check, spec(env={"A": "a" * 130_000})) == set()
    assert ids(check, spec(env={"A": 'line\n"quoted" $HOME'})) == set()


def test_environment_beyond_the_manifest_size_is_refused():
    env = {f"A{i}": "a" * 100_000 for i in range(9)}
    assert ids(check, spec(env=env)) == set()
    assert ids(check, spec(env={**env, "B": "b" * 100_000})) == {"manifest-size"}


def test_libtpu_flags_are_given_in_one_way_only():
    assert ids(check, spec(env={"LIBTPU_INIT_ARGS": "--a=1"})) == set()
    assert ids(check, spec(env={"LIBTPU_INIT_ARGS": "--a=1"}, xla_flags=["--b=1"])) == {"libtpu-twice"}
    assert ids(check, spec(FLAGSHIP, env={"LIBTPU_INIT_ARGS": "--a=1"})) == {"libtpu-pathways"}
    assert ids(check, spec(xla_flags=["--b=1"])) == set()


@pytest.mark.parametrize("flag", ["xla_a=1", "--xla_a", "--xla_a= 1", "--xla_a='1'", "--xla_a=1 --xla_b=2", ""])
def test_xla_flag_must_be_one_name_and_value(flag: str):
    (problem,) = problems(check, spec(FLAGSHIP, xla_flags=["--xla_a=true", flag]))
    assert (problem.id, problem.where) == ("xla-flag", "xla_flags.1")


def test_duplicate_xla_flag_is_a_warning():
    (problem,) = problems(check, spec(FLAGSHIP, xla_flags=["--xla_a=1", "--xla_b=1", "--xla_a=2"]))
    assert (problem.id, problem.severity, problem.where) == ("xla-flag-twice", "warning", "xla_flags.2")


def test_tpu_flags_are_omitted_locally_with_a_notice():
    flags = {"xla_flags": ["--xla_tpu_scoped_vmem_limit_kib=98304"]}
    assert ids(check, spec(**flags, target="local")) == {"xla-flags-ignored"}
    assert ids(check, spec(**flags)) == set()


@pytest.mark.parametrize(
    ("flag", "legal"),
    [
        ("xla_tpu_scoped_vmem_limit_kib=98304", True),
        ("xla_tpu_scoped_vmem_limit_kib=96M", False),
        ("xla_tpu_enable_async_collective_fusion=true", True),
        ("xla_tpu_enable_async_collective_fusion=True", True),
        ("xla_enable_async_all_gather=auto", True),
        ("xla_tpu_enable_async_collective_fusion=treu", False),
        ("xla_tpu_enable_async_collective_fusion=true,", False),
    ],
)
def test_flag_values_that_libtpu_refuses_are_reported(flag: str, legal: bool) -> None:
    expected = set() if legal else {"xla-flag-value"}
    assert ids(check, spec(env={"LIBTPU_INIT_ARGS": f"--{flag}"})) == expected


def test_xla_flags_on_a_pathways_head_are_reported():
    assert ids(check, spec(FLAGSHIP, env={"XLA_FLAGS": "--xla_a=1"})) == {"xla-flags-head"}
    assert ids(check, spec(env={"XLA_FLAGS": "--xla_a=1"})) == set()


def test_tpu_flags_in_a_wrong_variable_or_form_are_reported() -> None:
    assert ids(check, spec(env={"XLA_FLAGS": "--xla_a=1 --xla_tpu_b=1"})) == {"xla-flags-tpu"}
    assert ids(check, spec(FLAGSHIP, env={"XLA_FLAGS": "--xla_tpu_b=1"})) == {"xla-flags-head", "xla-flags-tpu"}
    assert ids(check, spec(env={"LIBTPU_INIT_ARGS": "xla_tpu_b=1"})) == {"libtpu-flag-ignored"}
    known = "--xla_tpu_scoped_vmem_limit_kib=1 --noxla_tpu_rwb_fusion --megascale_graph_hang_threshold=5m --v=1"
    assert ids(check, spec(env={"LIBTPU_INIT_ARGS": known})) == set()


def test_unknown_libtpu_flag_is_reported_with_a_suggestion() -> None:
    misspelt = "--xla_tpu_enable_latency_hiding_schduler=true"
    (problem,) = problems(check, spec(xla_flags=[misspelt]))
    assert (problem.id, problem.fix) == ("xla-flag-unknown", "Did you mean --xla_tpu_enable_latency_hiding_scheduler?")
    assert ids(check, spec(env={"LIBTPU_INIT_ARGS": f"--v=1 {misspelt}"})) == {"xla-flag-unknown"}
    assert ids(check, spec(xla_flags=[misspelt], image={"maxtext": "0.2.4"})) == set()
    assert ids(check, spec(FLAGSHIP, xla_flags=[misspelt])) == set()


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"HF_HUB_OFFLINE": "1"}, {"env-offline"}),
        ({"HF_HUB_OFFLINE": "0"}, set()),
        ({"https_proxy": "http://proxy:3128"}, {"env-proxy"}),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "localhost"}, set()),
        ({"PATH": "/opt/bin"}, {"env-replaces-image"}),
        ({"GOOGLE_APPLICATION_CREDENTIALS": "/home/ann/key.json"}, {"env-credentials"}),
        ({"JAX_DISABLE_JIT": "true"}, {"env-jax"}),
        ({"JAX_PLATFORM_NAME": "cpu"}, {"env-jax"}),
        ({"JAX_PLATFORM_NAME": "tpu"}, set()),
        ({"HF_HOME": "gs://my-bucket/hub"}, {"env-path"}),
        ({"JAX_DEBUG_NANS": "1", "HF_HOME": "/tmp/hub"}, set()),
    ],
)
def test_variables_with_another_meaning_in_a_pod_are_reported(env: dict[str, str], expected: set[str]) -> None:
    assert ids(check, spec(env=env)) == expected
    assert ids(check, spec(env=env, target="local")) == set()


def test_offline_run_must_not_need_the_hub() -> None:
    files = {"hf_path": "json", "hf_train_files": "gs://my-bucket/a.jsonl", "train_split": "train"}
    offline = {"env": {"HF_HUB_OFFLINE": "1"}, "model": {"tokenizer": "/opt/tokenizer"}}
    assert ids(check, spec(**offline, data=files)) == set()
    assert ids(check, spec(**offline)) == {"env-offline"}


@pytest.mark.parametrize(
    ("name", "word"),
    [("HF_TOKEN", "output"), ("M_HF_ACCESS_TOKEN", "output"), ("NOTE", "twice"), ("JAX_PLATFORMS", "pathways mode")],
)
def test_variable_that_would_leak_or_is_set_already_does_not_come_from_a_secret(name: str, word: str):
    secrets = {"env": {name: {"secret": "mine"}, "WANDB_API_KEY": {"secret": "wandb"}}}
    (problem,) = problems(check, spec(FLAGSHIP, secrets=secrets, env={"NOTE": "1"}))
    assert (problem.id, problem.where) == ("env-reserved", f"secrets.env.{name}")
    assert word in problem.message

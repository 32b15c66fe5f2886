from __future__ import annotations

from collections import defaultdict
from functools import reduce
from typing import Any

import pytest

from tests.everything import EVERYTHING, everything, leaves, sections_of
from xsft.base.names import ModeName
from xsft.base.pointers import Item, NamedEntry
from xsft.checks.facts import Facts
from xsft.launcher.audit import Expectation, expectations
from xsft.launcher.encoding import kubernetes_expand
from xsft.planning.planner import make_intent
from xsft.spec.resolve import resolve

MODES: tuple[ModeName, ...] = ("mcjax", "pathways")


def _all(mode: ModeName, **fields: Any) -> tuple[Expectation, ...]:
    run, _ = resolve(everything(mode=mode, **fields), Facts())
    return expectations(run, digest="d" * 64)


def _by_field(mode: ModeName, field: str, **fields: Any) -> list[Expectation]:
    return [e for e in _all(mode, **fields) if e.field == field]


@pytest.mark.parametrize("mode", MODES)
def test_an_expected_field_is_a_key_path_of_the_workload(mode: ModeName) -> None:
    """Or the command, the digest, a variable of the environment, a section: words a user can look up."""
    variables = {f"secrets.env.{name}" for name in EVERYTHING["secrets"]["env"]}
    fields_known = {*leaves(), *EVERYTHING, *variables, "command", "spec_digest", "secrets.hf_token"}
    assert {e.field for e in _all(mode)} - fields_known == {"env.NAME", "env.HF_TOKEN_PATH"} | (
        {"env.LIBTPU_INIT_ARGS"} if mode == "mcjax" else set()
    )


ENCODED = ("train.steps", "tpu.capacity", "tpu.reservation", "restarts.on_exit_codes", "restarts.max", "queue")


@pytest.mark.parametrize("capacity", ["spot", "on-demand", "reservation"])
@pytest.mark.parametrize("mode", MODES)
def test_the_audit_shows_the_value_that_the_workload_has(mode: ModeName, capacity: str) -> None:
    """Also if the manifest holds an encoding of it."""
    reserved = capacity == "reservation"
    settings = {"tpu__capacity": None if reserved else capacity, "tpu__reservation": "my-block" if reserved else None}
    run, _ = resolve(everything(mode=mode, **settings), Facts())
    expected = [e for e in expectations(run, digest="d" * 64) if e.field in ENCODED]
    for one in expected:
        shown = one.value if one.requested is None else one.requested
        if one.path[-1] != "rules":  # the constant rule that fails the JobSet
            assert shown == reduce(getattr, one.field.split("."), run.spec), one
    fields_known = {"tpu.reservation" if reserved else "tpu.capacity"}
    assert {e.field for e in expected} == {*ENCODED} - {"tpu.capacity", "tpu.reservation"} | fields_known


@pytest.mark.parametrize(("data", "counts"), [("repeat", 1), ("reshuffle", 2)])
@pytest.mark.parametrize("mode", MODES)
def test_only_a_run_that_reshuffles_counts_its_restarts(mode: ModeName, data: str, counts: int) -> None:
    of_restarts = _by_field(mode, "restarts.data", restarts__data=data)
    assert [
        expectation_of_restarts.value
        if expectation_of_restarts.requested is None
        else expectation_of_restarts.requested
        for expectation_of_restarts in of_restarts
    ] == [data] * counts


@pytest.mark.parametrize("mode", MODES)
def test_no_place_is_expected_twice(mode: ModeName) -> None:
    paths = [e.path for e in _all(mode)]
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("mode", MODES)
def test_only_given_values_are_expected(mode: ModeName) -> None:
    """A workload without the optional sections expects no Secret, no reservation, no grace period."""
    fields = {e.field for e in _all(mode, secrets=None, restarts=None, tpu__reservation=None, tpu__capacity=None)}
    assert fields.isdisjoint({"secrets.hf_token", "tpu.reservation", "tpu.capacity", "restarts.grace_period_s"})


OPTIONAL = (
    *(path for path in leaves() if not sections_of(path)[-1].model_fields[path.rpartition(".")[2]].is_required()),
    *("place", "secrets", "secrets.hf_token", "restarts", "image", "tpu", "model.hf"),
)


@pytest.mark.parametrize("mode", MODES)
def test_a_value_that_is_not_given_is_not_expected_to_be_none(mode: ModeName) -> None:
    """It would be an audit error, which hides the problem that names what is missing."""
    for path in OPTIONAL:
        both = {"pathways": None, "place__pathways": None} if "pathways" in path else {path.replace(".", "__"): None}
        intent = make_intent(everything(**{"mode": mode, **both}), Facts())
        assert [e.field for e in intent.expectations if "None" in repr(e.value)] == [], path


@pytest.mark.parametrize("mode", MODES)
def test_priority_and_pull_secret_are_expected_on_every_pod(mode: ModeName) -> None:
    pods = 1 if mode == "mcjax" else 2
    for field in ("priority", "image.pull_secret", "restarts.grace_period_s"):
        assert len(_by_field(mode, field)) == pods, field


@pytest.mark.parametrize("mode", MODES)
def test_an_environment_value_is_expected_as_kubernetes_expands_it(mode: ModeName) -> None:
    (expectation,) = _by_field(mode, "env.NAME")
    assert expectation.requested == EVERYTHING["env"]["NAME"]
    assert kubernetes_expand(expectation.value, {"value": "wrong"}) == expectation.requested
    assert expectation.path[-2:] == (NamedEntry("NAME"), "value")


def test_xla_flags_are_libtpus_in_mcjax_and_the_proxys_in_pathways() -> None:
    (mcjax,) = _by_field("mcjax", "env.LIBTPU_INIT_ARGS")
    assert mcjax.value == "--xla_tpu_enable_async_collective_fusion=true --xla_tpu_scoped_vmem_limit_kib=2"
    assert [e.path[-1] for e in _by_field("pathways", "pathways.proxy_args")] == [
        Item("--proxy=1"),
        Item("--xla_tpu_enable_async_collective_fusion=true"),
        Item("--xla_tpu_scoped_vmem_limit_kib=2"),
    ]


def test_chips_are_expected_as_a_number_in_mcjax_and_text_in_pathways() -> None:
    """As xpk writes them; Kubernetes takes both, the audit does not mix them up."""
    for mode, value in (("mcjax", 4), ("pathways", "4")):
        (chips,) = [e for e in _by_field(mode, "tpu.type") if e.path[-1] == "google.com/tpu"]
        assert (chips.value, chips.requested) == (value, 4)


def _of_containers(**fields: Any) -> dict[str, list[Any]]:
    """What is expected of Pathways' own settings, by the container."""
    values_by_container: dict[str, list[Any]] = defaultdict(list)
    for expected_field in _all("pathways", **fields):
        if expected_field.field.startswith("pathways."):
            *_, container = (part for part in expected_field.path if isinstance(part, NamedEntry))
            values_by_container[container.name].append(expected_field.value)
    return values_by_container


def test_each_pathways_container_has_its_image_scratch_and_arguments() -> None:
    images = {"proxy_image": "my.dev/proxy:9", "server_image": "my.dev/server:9", "scratch": "gs://my-bucket/scratch9"}
    args = {"proxy_args": ["--proxy=9"], "server_args": ["--server=9"], "worker_args": ["--worker=9"]}
    of_containers = _of_containers(**{f"pathways__{name}": value for name, value in (images | args).items()})
    scratch = "--gcs_scratch_location=gs://my-bucket/scratch9"
    assert of_containers["pathways-proxy"][:2] == ["my.dev/proxy:9", scratch]
    assert "--proxy=9" in of_containers["pathways-proxy"]
    assert of_containers["pathways-rm"] == ["my.dev/server:9", scratch, "--server=9"]
    assert of_containers["pathways-worker"] == ["my.dev/server:9", scratch, "--worker=9"]


def test_only_the_given_settings_of_pathways_are_expected() -> None:
    of_containers = _of_containers(pathways=None, place__pathways=None)
    assert of_containers.keys() == {"pathways-proxy"}
    assert all(value.startswith("--xla_") for value in of_containers["pathways-proxy"])


def test_the_command_shows_the_trainers_argv() -> None:
    (command,) = _by_field("pathways", "command")
    assert command.requested[0] == "python3"
    assert "-m" in command.requested
    assert command.value.startswith("JAX_PLATFORMS=proxy ")
    assert command.reads == "command"

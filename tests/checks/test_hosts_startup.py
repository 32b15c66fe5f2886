"""Hosts of a run connect to each other within the time limit."""

from __future__ import annotations

import pytest

from tests.checks.factory import FLAGSHIP, ids, problems, spec
from xsft.checks.hosts import TIMEOUT
from xsft.checks.hosts import check_startup as check

SLICES = {"type": "v6e-16", "num_slices": 2}


def limited(seconds: int) -> dict[str, object]:
    return {"overrides": {"maxtext": {TIMEOUT: seconds}}}


def test_sufficient_timeouts_have_no_problem() -> None:
    assert ids(check, spec(tpu=SLICES)) == set()
    assert ids(check, spec(FLAGSHIP, **limited(60))) == set(), "one process"
    assert ids(check, spec(tpu={"type": "v6e-4"}, **limited(60))) == set(), "one host"
    assert ids(check, spec(tpu=SLICES, **limited(300))) == set()


def test_timeout_below_the_default_is_a_warning() -> None:
    (problem,) = problems(check, spec(tpu=SLICES, **limited(60)))
    assert (problem.id, problem.severity) == ("initialization-timeout", "warning")
    assert problem.where == f"overrides.maxtext.{TIMEOUT}"
    assert "8 hosts must have pulled the image and started within 60 s" in problem.message


def test_spot_slices_that_may_start_at_different_times_are_noted() -> None:
    spot = {**SLICES, "capacity": "spot"}
    (problem,) = problems(check, spec(tpu=spot))
    assert (problem.id, problem.severity, problem.where) == ("initialization-timeout", "note", "tpu.num_slices")
    assert ids(check, spec(tpu=spot, **limited(900))) == set()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("skip_jax_distributed_system", "true"),
        ("enable_checkpointing", False),
        ("inference_benchmark_test", True),
        ("compile_topology", "v6e-16"),
    ],
)
def test_key_that_keeps_the_hosts_unconnected_is_refused(key: str, value: object) -> None:
    given = {"overrides": {"maxtext": {key: value}}}
    (problem,) = problems(check, spec(**given))
    assert (problem.id, problem.where) == ("hosts-not-connected", f"overrides.maxtext.{key}")
    assert "does not connect the 2 hosts" in problem.message
    assert ids(check, spec(tpu={"type": "v6e-4"}, **given)) == set(), "one host"
    assert ids(check, spec(FLAGSHIP, **given)) == set(), "one process"


def test_keys_that_keep_the_hosts_connected_have_no_problem() -> None:
    kept = {"enable_checkpointing": "true", "skip_jax_distributed_system": False, "compile_topology": ""}
    assert ids(check, spec(overrides={"maxtext": kept})) == set()

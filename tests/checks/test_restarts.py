"""Restarts: exit codes that cause them, and settings that prevent them."""

from __future__ import annotations

import pytest

from tests.checks.factory import FLAGSHIP, ids, problems, spec
from xsft.checks.restarts import check


def test_restarts_on_one_exit_code_have_no_problem():
    assert ids(check, spec(restarts={"max": 3, "on_exit_codes": [1], "grace_period_s": 120})) == set()


def test_restart_on_configuration_errors_is_reported():
    assert ids(check, spec(restarts={"max": 3, "on_exit_codes": [1, 2]})) == {"restarts-config-errors"}


def test_exit_codes_without_restarts_are_reported():
    assert ids(check, spec(restarts={"on_exit_codes": [1]})) == {"restarts-codes-unused"}


def test_spot_capacity_without_restarts_is_reported():
    assert ids(check, spec(tpu={"capacity": "spot"})) == {"restarts-spot"}
    assert ids(check, spec(tpu={"capacity": "spot"}, restarts={"max": 1})) == set()
    assert ids(check, spec(tpu={"capacity": "on-demand"})) == set()


@pytest.mark.parametrize(("capacity", "severity"), [("spot", "warning"), ("on-demand", "note")])
def test_pathways_restarts_need_exit_code_1_for_a_lost_slice(capacity: str, severity: str):
    reported = problems(check, spec(FLAGSHIP, tpu={"capacity": capacity}, restarts={"max": 3}))
    assert [(p.id, p.severity) for p in reported] == [("restarts-lost-slice", severity)]
    mended = spec(FLAGSHIP, tpu={"capacity": capacity}, restarts={"max": 3, "on_exit_codes": [1]})
    assert ids(check, mended) == set()


def test_mcjax_restarts_need_no_exit_code_for_a_lost_peer():
    assert ids(check, spec(restarts={"max": 3})) == set()


@pytest.mark.parametrize(("seconds", "expected"), [(0, {"grace-period"}), (10, {"grace-period"}), (11, set())])
def test_grace_period_must_exceed_10_seconds(seconds: int, expected: set[str]):
    assert ids(check, spec(restarts={"grace_period_s": seconds})) == expected


def test_grace_period_beyond_a_spot_nodes_notice_is_said():
    long = {"max": 1, "grace_period_s": 31}
    assert ids(check, spec(restarts=long, tpu={"capacity": "spot"})) == {"grace-on-spot"}
    assert ids(check, spec(restarts=long | {"grace_period_s": 30}, tpu={"capacity": "spot"})) == set()
    assert ids(check, spec(restarts=long, tpu={"capacity": "on-demand"})) == set()


def test_a_run_of_days_without_restarts_is_named():
    long = {"steps": 10**6, "checkpoint_period": 100}
    assert ids(check, spec(FLAGSHIP, train=long, restarts={"max": 0})) == {"restarts-none"}
    assert ids(check, spec(FLAGSHIP, train=long, restarts={"max": 1, "on_exit_codes": [1]})) == set()
    assert ids(check, spec(FLAGSHIP, train={"steps": 10**5}, restarts={"max": 0})) == set()


def test_cost_of_an_interruption_is_said_where_it_is_much():
    place = {"context": "c", "output": "gs://my-bucket/o", "chip_hour_price": 2.0}
    restarts = {"max": 1, "on_exit_codes": [1]}
    rare = {"steps": 10**6, "checkpoint_period": 30_000}
    (problem,) = problems(check, spec(FLAGSHIP, train=rare, restarts=restarts, place=place))
    assert problem.id == "interruption-cost"
    # half of 30,000 steps of 0.2454 s, on 512 chips, at 2.0
    assert "at least 1.0 h, 524 chip-hours, 1,047 by the place's price" in problem.message


def test_time_to_live_of_0_is_reported():
    assert ids(check, spec(ttl_seconds_after_finished=0)) == {"ttl-zero"}
    assert ids(check, spec(ttl_seconds_after_finished=1)) == set()


def test_local_run_has_no_restart_problems():
    loud = {"restarts": {"on_exit_codes": [2], "grace_period_s": 0}, "ttl_seconds_after_finished": 0}
    assert ids(check, spec(**loud, target="local")) == set()

"""Each fault that xsft promises to bear has a test against the real API server.

That each of them fails without xsft's own handling was tried by taking it out of a copy, one by one.
"""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

import pytest

CREATE = "tests.effects.cluster.test_create"
SUBMISSION = "tests.effects.submit.test_submission"
OUTAGES = "tests.faults.test_outages"
EVERY = "tests.faults.test_every_request"
SILENT = "tests.faults.test_silent_cluster"
WATCH = "tests.faults.test_watched_wait"
ROADS = "tests.faults.test_transports"

PROMISED = {
    "timeouts": (
        (CREATE, "test_a_response_lost_after_the_create_is_found_created"),
        (EVERY, "test_one_fault_after_the_server_did_it"),
        (SILENT, "test_the_answer_of_the_others_comes_soon_and_the_silent_ones_last_state_beside_it"),
        (SILENT, "test_a_slow_cluster_is_waited_for"),
    ),
    "429 with Retry-After": (
        (CREATE, "test_a_busy_server_is_retried_after_its_retry_after"),
        (CREATE, "test_a_retry_after_over_the_budget_is_not_waited_for"),
        (SUBMISSION, "test_retry_after_of_a_busy_server_is_obeyed"),
    ),
    "500": (
        (CREATE, "test_a_server_error_is_followed_by_a_read_and_another_create"),
        (SUBMISSION, "test_a_server_error_at_the_create_is_retried"),
    ),
    "410 Gone on a watch": ((WATCH, "test_watches_that_fail_leave_the_usual_looks"),),
    "truncated answers": (
        (EVERY, "test_one_fault_after_the_server_did_it"),
        ("tests.effects.cluster.test_cluster", "test_an_incomplete_404_answer_is_requested_again"),
    ),
    "expired token": ((ROADS, "test_verbs_say_what_it_means_and_what_to_do"),),
    "clock skew": (
        ("tests.faults.test_skewed_clock", "test_nothing_is_stalled_old_or_gone_because_of_it"),
        (EVERY, "test_the_servers_clock_does_not_matter"),
    ),
    "API server restarted mid-submit": ((OUTAGES, "test_the_api_server_is_restarted_meanwhile"),),
    "JobSet deleted under us": (
        (OUTAGES, "test_it_is_deleted_between_the_create_and_the_read_back"),
        (OUTAGES, "test_it_is_deleted_while_it_is_adopted"),
        (OUTAGES, "test_it_is_being_deleted"),
    ),
    "time to live is over": ((OUTAGES, "test_its_time_to_live_is_over"),),
    "two submitters of one name": (
        (SUBMISSION, "test_two_concurrent_submitters_make_one_run"),
        (SUBMISSION, "test_two_concurrent_processes_make_one_run"),
        (OUTAGES, "test_three_processes_at_once_make_one_run"),
    ),
    "kill -9 before and after create": (
        (SUBMISSION, "test_a_killed_submitter_leaves_one_run_that_the_next_call_adopts_or_creates"),
    ),
    "kill -9 during create": ((OUTAGES, "test_a_submitter_is_killed_while_its_create_is_on_the_way"),),
}


@pytest.mark.parametrize("fault", PROMISED)
def test_it_is_tried_on_a_real_api_server(fault: str) -> None:
    for module, name in PROMISED[fault]:
        there = importlib.import_module(module)
        test = getattr(there, name)
        takes = inspect.signature(test).parameters
        assert _always(there) or {"cluster_api", "scene"} & set(takes), name
        marks = {mark.name for mark in getattr(test, "pytestmark", ())}
        assert "standin_only" not in marks, name


def _always(module: ModuleType) -> bool:
    """Return whether all tests of the module need a real cluster."""
    marks = getattr(module, "pytestmark", ())
    return "cluster" in {mark.name for mark in (marks if isinstance(marks, list) else [marks] if marks else [])}

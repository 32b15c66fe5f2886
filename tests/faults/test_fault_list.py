"""Each fault that xsft promises to bear has a test against the real API server.

That each of them fails without xsft's own handling was tried by taking it out of a copy, one by one.
"""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

import pytest

CREATE = "tests.cluster.test_exactly_once_create"
SUBMISSION = "tests.launch.test_submission"
OUTAGES = "tests.faults.test_outages"
EVERY = "tests.faults.test_every_request"
SILENT = "tests.faults.test_silent_cluster"
ROADS = "tests.faults.test_transports"

PROMISED = {
    "timeouts": (
        (CREATE, "test_a_response_lost_after_the_create_is_found_created"),
        (EVERY, "test_a_fault_after_any_request_was_served_leaves_at_most_one_run"),
        (SILENT, "test_status_answers_soon_and_shows_the_last_state_of_silent_clusters"),
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
    "truncated answers": (
        (EVERY, "test_a_fault_after_any_request_was_served_leaves_at_most_one_run"),
        ("tests.cluster.test_cluster", "test_an_incomplete_404_answer_is_requested_again"),
    ),
    "expired token": ((ROADS, "test_verbs_explain_each_transport_failure_and_name_a_fix"),),
    "clock skew": (
        ("tests.faults.test_skewed_clock", "test_a_skewed_clock_makes_no_run_stalled_old_or_gone"),
        (EVERY, "test_a_server_clock_that_is_hours_off_changes_no_submission"),
    ),
    "API server restarted mid-submit": ((OUTAGES, "test_a_submission_survives_a_restart_of_the_api_server"),),
    "JobSet deleted during a submission": (
        (OUTAGES, "test_a_jobset_deleted_before_the_read_back_is_followed_by_a_new_attempt"),
        (OUTAGES, "test_a_jobset_deleted_during_its_adoption_is_followed_by_a_new_attempt"),
        (OUTAGES, "test_submit_refuses_a_run_whose_jobset_is_being_deleted"),
    ),
    "JobSet deleted by its ttl": ((OUTAGES, "test_a_run_deleted_by_its_ttl_is_finished_if_its_last_step_is_saved"),),
    "two submitters of one name": (
        (SUBMISSION, "test_two_concurrent_submitters_make_one_run"),
        (SUBMISSION, "test_two_concurrent_processes_make_one_run"),
        (OUTAGES, "test_three_processes_at_once_make_one_run"),
    ),
    "kill -9 before and after create": (
        (SUBMISSION, "test_a_killed_submitter_leaves_one_run_that_the_next_call_adopts_or_creates"),
    ),
    "kill -9 during create": ((OUTAGES, "test_a_create_that_arrives_after_its_submitter_was_killed_makes_one_run"),),
}


@pytest.mark.parametrize("fault", PROMISED)
def test_every_promised_fault_is_tested_on_a_real_api_server(fault: str) -> None:
    for module, name in PROMISED[fault]:
        test_module = importlib.import_module(module)
        test = getattr(test_module, name)
        takes = inspect.signature(test).parameters
        assert _always(test_module) or {"cluster_api", "scene"} & set(takes), name
        marks = {mark.name for mark in getattr(test, "pytestmark", ())}
        assert "standin_only" not in marks, name


def _always(module: ModuleType) -> bool:
    """Return whether all tests of the module need a real cluster."""
    marks = getattr(module, "pytestmark", ())
    return "cluster" in {mark.name for mark in (marks if isinstance(marks, list) else [marks] if marks else [])}

from __future__ import annotations

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.base.names import (
    ATTEMPT_SUFFIX,
    PATHWAYS_NAME_LIMIT,
    POD_NAME_LIMIT,
    ModeName,
    attempt_name,
    attempt_number,
    jobset_limit,
    list_names,
    next_attempt,
    run_name_limit,
)
from xsft.base.targets import LAUNCHERS

MODES = st.sampled_from(get_args(ModeName))
TARGETS = st.sampled_from(sorted(LAUNCHERS))
SLICES = st.integers(1, 999)
HOSTS = st.integers(1, 2048)


@given(target=TARGETS, mode=MODES, num_slices=SLICES, hosts=HOSTS)
def test_nine_attempts_of_the_longest_run_name_fit_the_limit(
    target: str, mode: ModeName, num_slices: int, hosts: int
) -> None:
    longest = "n" * run_name_limit(target=target, mode=mode, num_slices=num_slices, hosts=hosts)
    limit = jobset_limit(target=target, mode=mode, num_slices=num_slices, hosts=hosts)
    assert all(len(attempt_name(longest, attempt)) <= limit for attempt in range(1, 10))
    assert len(longest) == limit - ATTEMPT_SUFFIX


@given(target=TARGETS, mode=MODES, num_slices=SLICES, hosts=HOSTS)
def test_every_pod_of_the_longest_name_has_a_valid_name(
    target: str, mode: ModeName, num_slices: int, hosts: int
) -> None:
    jobset = "n" * jobset_limit(target=target, mode=mode, num_slices=num_slices, hosts=hosts)
    assert len(jobset) <= LAUNCHERS[target].name_limit
    assert len(f"{jobset}-slice-job-{num_slices - 1}-{hosts - 1}-abcde") <= POD_NAME_LIMIT


def test_the_coordinator_of_a_pathways_run_is_a_valid_label() -> None:
    """JobSet writes `<name>-pathways-head-0-0.<name>` into a label; one character more is too long."""
    for length, fits in ((PATHWAYS_NAME_LIMIT, True), (PATHWAYS_NAME_LIMIT + 1, False)):
        name = "n" * length
        assert (len(f"{name}-pathways-head-0-0.{name}") <= 63) is fits


@pytest.mark.parametrize(
    ("mode", "num_slices", "hosts", "limit"),
    [("mcjax", 1, 1, 40), ("mcjax", 2, 64, 40), ("mcjax", 999, 2048, 38), ("pathways", 2, 64, 22)],
)
def test_jobset_limit_depends_on_mode_slices_and_hosts(mode: ModeName, num_slices: int, hosts: int, limit: int) -> None:
    assert jobset_limit(target="xpk", mode=mode, num_slices=num_slices, hosts=hosts) == limit


@given(name=st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True), attempt=st.integers(1, 9))
def test_a_jobset_name_is_a_dns_label_and_gives_the_run(name: str, attempt: int) -> None:
    jobset = attempt_name(name, attempt)
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", jobset)
    assert jobset.startswith(name)
    assert (jobset == name) == (attempt == 1)
    assert attempt_number(jobset, first=name) == attempt


FOLDER = "gs://b/converted/qwen3-0.6b-0954c894002f"


@pytest.mark.parametrize("number", [1, 2, 3, 10, 999])
def test_folders_of_attempts_are_numbered_and_found_again(number: int) -> None:
    assert attempt_number(attempt_name(FOLDER, number), first=FOLDER) == number


@pytest.mark.parametrize("first", ["gemma", FOLDER])
@pytest.mark.parametrize("end", ["-1", "-0", "-02", "-x", "-", "2", "-2-2", "-2/", "-9999999999"])
def test_attempt_number_is_none_for_a_name_that_is_no_attempt(first: str, end: str) -> None:
    assert attempt_number(f"{first}{end}", first=first) is None
    assert attempt_number(first[:-1], first=first) is None
    assert attempt_number("2", first=first) is None
    assert attempt_number("", first=first) is None


@pytest.mark.parametrize(
    ("taken_names", "free"), [((), "a"), (("a",), "a-2"), (("a", "a-2"), "a-3"), (("a-2",), "a"), (("b", "a"), "a-2")]
)
def test_a_new_attempt_has_the_first_name_that_is_free(taken_names: tuple[str, ...], free: str) -> None:
    assert next_attempt("a", existing=taken_names) == free


def test_jobset_limit_counts_pods_from_zero() -> None:
    """The longest suffix of 1000 × 1000 is `-slice-job-999-999-abcde`, 24 characters of 63."""
    assert jobset_limit(target="xpk", mode="mcjax", num_slices=1000, hosts=1000) == 39
    assert jobset_limit(target="xpk", mode="mcjax", num_slices=1001, hosts=1000) == 38


@pytest.mark.parametrize(("count", "shown"), [(0, ""), (2, "c0, c1"), (5, "c0, c1 and 3 more")])
def test_list_names_shows_the_first_names_and_counts_the_rest(count: int, shown: str) -> None:
    assert list_names([f"c{n}" for n in range(count)], 2) == shown

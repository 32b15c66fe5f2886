from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.observations import NOW, FakeRuns, jobset, local, observed, runs_read
from tests.replacing import replace
from xsft.base.errors import Unknown, Unreachable, UsageError
from xsft.base.reporting import Reporter
from xsft.cluster.objects import Condition
from xsft.cluster.observation import Observation, Recorded, ReplicatedJob, RunObject, Unread
from xsft.runs.classify import classify
from xsft.runs.log_roles import LogRequest, ProcessRole
from xsft.runs.logstream import LogLine
from xsft.runs.lookup import RunsRead
from xsft.runs.run_logs import AGAIN_S, end_text, found_lines

MCJAX = jobset("gemma", jobs=(ReplicatedJob(name="slice-job", replicas=2),))
PATHWAYS = jobset(
    "deep",
    mode="pathways",
    jobs=(ReplicatedJob(name="worker", replicas=2), ReplicatedJob(name="pathways-head", replicas=1)),
)


@dataclass
class Opened:
    """The logs that were opened, and their lines."""

    found: RunsRead
    empty: bool = False
    roles: list[ProcessRole] = field(default_factory=list)
    jobset: str = ""
    asked: LogRequest | None = None

    def lines(
        self, observation: Observation, run_object: RunObject, roles: tuple[ProcessRole, ...], log_request: LogRequest
    ) -> Iterator[LogLine]:
        self.roles, self.jobset, self.asked = list(roles), run_object.name, log_request
        for n, role in enumerate(() if self.empty else roles):
            yield LogLine(role=role, pod="p", at=f"2026-11-21T11:00:0{n % 10}Z", text=f"hello from {role.host}")

    def local_lines(self, observation: Observation, log_request: LogRequest) -> Iterator[str]:
        self.asked = log_request
        yield from ("one", "two")

    def show(self, name: str, *, timestamps: bool = False, **options: object) -> list[str]:
        request, runs = LogRequest(**options), FakeRuns(self.found)  # type: ignore[arg-type]
        return list(found_lines(name, asked=request, runs=runs, logs=self, timestamps=timestamps).lines)


def opened(*observation: Observation, empty: bool = False) -> Opened:
    observations = observation or (observed("gemma", jobset=MCJAX), observed("deep", jobset=PATHWAYS), local("tiny"))
    return Opened(runs_read(observations), empty=empty)


(SILENT,) = Unreachable("lab has said nothing for 5 s", fix="Look at the VPN.").problems
(EXPIRED,) = Unreachable("lab: log in", fix="Log in.", id="login-expired", again="never").problems
NO_JOBSETS = (Unread(what="jobsets", why="timeout."),)


@dataclass
class Patient:
    """Answers in turn; the pauses that were made between them."""

    answers: list[RunsRead]
    pauses: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def follow(self, name: str) -> list[str]:
        runs, listener = FakeRuns(*self.answers), Reporter(say=self.said.append)
        request = LogRequest(follow=True)
        lines_found = found_lines(
            name, asked=request, runs=runs, logs=opened(), timestamps=False, listener=listener, pause=self.pauses.append
        )
        return list(lines_found.lines)


def test_following_waits_for_a_cluster_that_is_silent_at_the_beginning() -> None:
    over = replace(MCJAX, terminal="Completed", conditions=())
    runs_there = runs_read((observed("gemma", jobset=over),))
    deaf = runs_read((), (SILENT,), answered=False, whole=False)
    half = runs_read((observed("gemma", jobset=MCJAX, unread=NO_JOBSETS),), (SILENT,), whole=False)
    patient = Patient([deaf, deaf, half, runs_there])
    assert patient.follow("gemma") == ["hello from 0"]
    assert patient.pauses[:3] == [AGAIN_S] * 3
    assert [line for line in patient.said if "Still waiting." in line] == [
        "Nothing could be read: lab has said nothing for 5 s. Still waiting.",
        "The cluster of gemma does not answer: timeout. Still waiting.",
    ]


def test_following_ends_at_an_error_that_waiting_does_not_fix() -> None:
    with pytest.raises(Unreachable, match="log in"):
        Patient([runs_read((), (EXPIRED,), answered=False, whole=False)]).follow("gemma")
    with pytest.raises(UsageError):
        Patient([runs_read((observed("gemma", jobset=MCJAX),))]).follow("other")
    with pytest.raises(Unreachable):
        opened(observed("gemma", jobset=MCJAX, unread=NO_JOBSETS)).show("gemma")


@pytest.mark.parametrize(
    ("options", "places"),
    [
        ({"slice_index": 1}, [(1, 0)]),
        ({"host": 37}, [(0, 37)]),
        ({"slice_index": 1, "host": 37}, [(1, 37)]),
        ({"host": 37, "every": True}, [(0, 37), (1, 37)]),
    ],
)
def test_options_choose_other_processes(options: dict[str, object], places: list[tuple[int, int]]) -> None:
    logs = opened()
    logs.show("gemma", **options)
    assert [(role.slice_index, role.host) for role in logs.roles] == places
    logs.show("deep", **options)
    assert {role.replicated_job for role in logs.roles} == {"worker"}


def test_lines_of_several_processes_are_labelled() -> None:
    lines = opened().show("gemma", host=3, every=True)
    assert lines == ["slice 0 host 3 | hello from 3", "slice 1 host 3 | hello from 3"]


def test_all_logs_are_opened_only_with_a_raised_limit() -> None:
    logs = opened()
    with pytest.raises(UsageError, match=r"128 logs of .* requested; the limit is 8") as raised:
        logs.show("gemma", every=True)
    assert "--streams 128" in raised.value.fix
    assert logs.roles == []
    assert len(logs.show("gemma", every=True, at_most=128)) == 128
    with pytest.raises(UsageError, match="129 logs of"):
        logs.show("deep", every=True)
    with pytest.raises(UsageError, match="64 logs of"):
        logs.show("gemma", every=True, slice_index=1)


@pytest.mark.parametrize("options", [{"slice_index": 2}, {"host": 64}, {"slice_index": 0, "host": 99}])
def test_a_missing_slice_or_host_is_reported_with_the_existing_ones(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="slice 0 has hosts 0 to 63; slice 1 has hosts 0 to 63"):
        opened().show("gemma", **options)


SECOND = jobset("gemma-2", run_name="gemma", created_at="2026-11-21T11:00:00Z", jobs=MCJAX.jobs)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("gemma", {}, "gemma-2"),
        ("gemma-2", {}, "gemma-2"),
        ("gemma", {"attempt": 1}, "gemma"),
        ("gemma", {"attempt": 2}, "gemma-2"),
        ("gemma-2", {"attempt": 1}, "gemma"),
    ],
)
def test_a_name_and_attempt_choose_the_jobset(name: str, options: dict[str, object], expected: str) -> None:
    logs = opened(observed(jobset=MCJAX), observed(jobset=SECOND))
    logs.show(name, **options)
    assert logs.jobset == expected


@pytest.mark.parametrize("attempt", [0, 3, 9])
def test_an_unknown_attempt_is_refused_with_the_known_ones(attempt: int) -> None:
    with pytest.raises(UsageError, match=rf"gemma has no attempt {attempt}\. Known submissions: 1, 2\."):
        opened(observed(jobset=MCJAX), observed(jobset=SECOND)).show("gemma", attempt=attempt)
    with pytest.raises(UsageError, match=rf"gemma has no attempt {attempt}\. Known submissions: 1\."):
        opened(observed(jobset=MCJAX)).show("gemma", attempt=attempt)


def test_an_attempt_whose_jobset_is_gone_is_refused() -> None:
    gone = observed("gemma", jobset=None, record=Recorded(outcome="created", jobset="gemma-3"))
    for name, first in (("gemma-3", (observed(jobset=MCJAX), gone)), ("gemma", (observed(jobset=SECOND),))):
        number = 3 if name == "gemma-3" else 1
        with pytest.raises(UsageError, match=f"Attempt {number} of gemma has no JobSet"):
            opened(*first).show("gemma", attempt=number)
    with pytest.raises(UsageError, match=r"no attempt 7\. .*: 1, 3 \(gone\)"):
        opened(observed(jobset=MCJAX), gone).show("gemma", attempt=7)


def test_logs_of_a_local_run_are_read_from_its_file() -> None:
    assert opened().show("tiny", tail=5) == ["one", "two"]
    with pytest.raises(UsageError, match="one process"):
        opened().show("tiny", slice_index=0)


def test_a_run_without_a_jobset_has_no_log() -> None:
    with pytest.raises(Unknown, match="deletes a log with its pod"):
        opened(observed(jobset=None, progress=None)).show("gemma")
    with pytest.raises(Unreachable, match=r"does not answer: timeout\.$"):
        opened(observed(jobset=None, unread=(Unread(what="jobsets", why="timeout."),))).show("gemma")


def followed(*reads: RunsRead, name: str = "gemma") -> tuple[str | None, list[float]]:
    """Return what is told about the run's end, and the pauses; the log is found in the first answer."""
    logs, paused = opened(), list[float]()
    runs = FakeRuns(logs.found, *reads, classify=classify)
    fake_runs = found_lines(name, asked=LogRequest(follow=True), runs=runs, logs=logs, timestamps=False)
    assert list(fake_runs.lines)
    return end_text(fake_runs.seen, runs=runs, pause=paused.append), paused


ENDED = (Condition(type="Failed", status="True", reason="ReachedMaxRestarts", message="", at=NOW),)
FAILED = observed("gemma", jobset=replace(MCJAX, terminal="Failed", conditions=ENDED))


def test_a_cancel_that_is_recorded_a_moment_later_is_waited_for() -> None:
    gone = observed("gemma", jobset=None, record=Recorded(outcome="created", jobset="gemma", uid=MCJAX.uid))
    cancelled = replace(gone, record=Recorded(outcome="cancelled", jobset="gemma", uid=MCJAX.uid))
    said, paused = followed(runs_read((gone,)), runs_read((cancelled,)))
    assert said == "-- gemma  cancelled  step 120  loss 2.346 --"
    assert len(paused) == 1


def test_the_end_of_an_earlier_attempt_is_printed() -> None:
    """Not that of the one which runs now."""
    now = observed("gemma", jobset=replace(SECOND, run_name="gemma"))
    said, _ = followed(runs_read((FAILED, now)))
    assert said is not None
    assert "failed (trainer-failed)" in said
    assert "starting" not in said


def test_the_end_of_a_followed_run_on_this_machine_is_printed() -> None:
    other = local("other", record=Recorded(outcome="failed", started_at=NOW, finished_at=NOW))
    said, _ = followed(runs_read((other, local("tiny"))), name="tiny")
    assert said == "-- tiny  succeeded  step 40/40  loss 2.346 --"


def test_no_end_is_printed_if_no_cluster_answers() -> None:
    assert followed(runs_read((), (), answered=False, whole=False)) == (None, [1.0, 1.0])

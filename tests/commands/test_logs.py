from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.observations import NOW, Read, jobset, judged, local, observed
from tests.replacing import replace
from xsft.actions.runs.log_request import LogRequest
from xsft.actions.runs.log_roles import all_roles, chosen_roles, role_text
from xsft.actions.runs.logs import AGAIN_S, LogsWorld
from xsft.commands.logs import logs
from xsft.effects.runs.logs import LogLine, ProcessRole
from xsft.errors import Unknown, Unreachable, UsageError
from xsft.run_query import RunQuery
from xsft.states.classify import classify
from xsft.states.folding import RowFilter
from xsft.states.model import Condition, Observation, Recorded, ReplicatedJob, RunObject, Unread
from xsft.states.moments import before

MCJAX = jobset("gemma", jobs=(ReplicatedJob(name="slice-job", replicas=2),))
PATHWAYS = jobset(
    "deep",
    mode="pathways",
    jobs=(ReplicatedJob(name="worker", replicas=2), ReplicatedJob(name="pathways-head", replicas=1)),
)


@dataclass
class Opened:
    """The logs that were opened, and their lines."""

    found: Read
    roles: list[ProcessRole] = field(default_factory=list)
    jobset: str = ""
    asked: LogRequest | None = None

    def lines(
        self, seen: Observation, there: RunObject, roles: tuple[ProcessRole, ...], asked: LogRequest
    ) -> Iterator[LogLine]:
        self.roles, self.jobset, self.asked = list(roles), there.name, asked
        for n, role in enumerate(roles):
            yield LogLine(role=role, pod="p", at=f"2026-11-21T11:00:0{n % 10}Z", text=f"hello from {role.host}")

    def local(self, seen: Observation, asked: LogRequest) -> Iterator[str]:
        self.asked = asked
        yield from ("one", "two")

    def show(self, name: str, *, timestamps: bool = False, **asked: object) -> list[str]:
        query = RunQuery(read=lambda: self.found, classify=judged, wanted=RowFilter(everything=True), now=lambda: NOW)
        world = LogsWorld(query=query, lines=self.lines, local_lines=self.local)
        out = io.StringIO()
        given_asked = LogRequest(**asked)  # type: ignore[arg-type]
        assert logs(name, asked=given_asked, world=world, timestamps=timestamps, stdout=out) == 0
        return out.getvalue().splitlines()


def opened(*seen: Observation) -> Opened:
    return Opened(Read(seen or (observed("gemma", jobset=MCJAX), observed("deep", jobset=PATHWAYS), local("tiny"))))


(SILENT,) = Unreachable("lab has said nothing for 5 s", fix="Look at the VPN.").problems
(EXPIRED,) = Unreachable("lab: log in", fix="Log in.", id="login-expired", again="never").problems
NO_JOBSETS = (Unread(what="jobsets", why="timeout"),)


@dataclass
class Patient:
    """Answers in turn; the pauses that were made between them."""

    answers: list[Read]
    pauses: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def follow(self, name: str) -> list[str]:
        told, out = opened(), io.StringIO()
        query = RunQuery(
            read=lambda: self.answers.pop(0) if len(self.answers) > 1 else self.answers[0],
            classify=judged,
            wanted=RowFilter(everything=True),
            now=lambda: NOW,
        )
        world = LogsWorld(
            query=query, lines=told.lines, local_lines=told.local, say=self.said.append, pause=self.pauses.append
        )
        logs(name, asked=LogRequest(follow=True), world=world, timestamps=False, stdout=out)
        return out.getvalue().splitlines()


def test_following_waits_for_a_cluster_that_is_silent_at_the_beginning() -> None:
    over = replace(MCJAX, terminal="Completed", conditions=())
    there = Read((observed("gemma", jobset=over),))
    deaf = Read((), (SILENT,), answered=False, whole=False)
    half = Read((observed("gemma", jobset=MCJAX, unread=NO_JOBSETS),), (SILENT,), whole=False)
    patient = Patient([deaf, deaf, half, there])
    assert patient.follow("gemma") == ["hello from 0"]
    assert patient.pauses[:3] == [AGAIN_S] * 3
    assert [line for line in patient.said if "Still waiting." in line] == [
        "Nothing could be read: lab has said nothing for 5 s. Still waiting.",
        "The cluster of gemma does not answer: timeout. Still waiting.",
    ]


def test_following_waits_for_nothing_that_waiting_does_not_fix() -> None:
    with pytest.raises(Unreachable, match="log in"):
        Patient([Read((), (EXPIRED,), answered=False, whole=False)]).follow("gemma")
    with pytest.raises(UsageError):
        Patient([Read((observed("gemma", jobset=MCJAX),))]).follow("other")
    with pytest.raises(Unreachable):
        opened(observed("gemma", jobset=MCJAX, unread=NO_JOBSETS)).show("gemma")


def test_the_one_process_that_prints_steps_and_no_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    told = opened()
    assert told.show("gemma") == ["hello from 0"]
    assert told.roles == [ProcessRole(replicated_job="slice-job", slice_index=0, host=0)]
    assert told.show("deep") == ["hello from 0"]
    assert told.roles == [ProcessRole(replicated_job="pathways-head", slice_index=0, host=0)]
    assert told.show("gemma", timestamps=True) == ["2026-11-21T11:00:00Z hello from 0"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("asked", "places"),
    [
        ({"slice_index": 1}, [(1, 0)]),
        ({"host": 37}, [(0, 37)]),
        ({"slice_index": 1, "host": 37}, [(1, 37)]),
        ({"host": 37, "every": True}, [(0, 37), (1, 37)]),
    ],
)
def test_others_are_named(asked: dict[str, object], places: list[tuple[int, int]]) -> None:
    told = opened()
    told.show("gemma", **asked)
    assert [(role.slice_index, role.host) for role in told.roles] == places
    told.show("deep", **asked)
    assert {role.replicated_job for role in told.roles} == {"worker"}


def test_lines_of_several_processes_are_labelled() -> None:
    lines = opened().show("gemma", host=3, every=True)
    assert lines == ["slice 0 host 3 | hello from 3", "slice 1 host 3 | hello from 3"]


def test_all_of_them_are_opened_on_demand_only() -> None:
    told = opened()
    with pytest.raises(UsageError, match=r"128 logs of .* requested; the limit is 8") as raised:
        told.show("gemma", every=True)
    assert "--streams 128" in raised.value.fix
    assert told.roles == []
    assert len(told.show("gemma", every=True, at_most=128)) == 128
    with pytest.raises(UsageError, match="129 logs of"):
        told.show("deep", every=True)
    with pytest.raises(UsageError, match="64 logs of"):
        told.show("gemma", every=True, slice_index=1)


@pytest.mark.parametrize("asked", [{"slice_index": 2}, {"host": 64}, {"slice_index": 0, "host": 99}])
def test_a_missing_name_is_reported_with_the_existing_ones(asked: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="slice 0 has hosts 0 to 63; slice 1 has hosts 0 to 63"):
        opened().show("gemma", **asked)


SECOND = jobset("gemma-2", run_name="gemma", created_at="2026-11-21T11:00:00Z", jobs=MCJAX.jobs)


@pytest.mark.parametrize(
    ("name", "asked", "expected"),
    [
        ("gemma", {}, "gemma-2"),
        ("gemma-2", {}, "gemma-2"),
        ("gemma", {"attempt": 1}, "gemma"),
        ("gemma", {"attempt": 2}, "gemma-2"),
        ("gemma-2", {"attempt": 1}, "gemma"),
    ],
)
def test_attempts(name: str, asked: dict[str, object], expected: str) -> None:
    told = opened(observed(jobset=MCJAX), observed(jobset=SECOND))
    told.show(name, **asked)
    assert told.jobset == expected


@pytest.mark.parametrize("attempt", [0, 3, 9])
def test_an_attempt_that_never_was(attempt: int) -> None:
    with pytest.raises(UsageError, match=rf"gemma has no attempt {attempt}\. Known submissions: 1, 2\."):
        opened(observed(jobset=MCJAX), observed(jobset=SECOND)).show("gemma", attempt=attempt)
    with pytest.raises(UsageError, match=rf"gemma has no attempt {attempt}\. Known submissions: 1\."):
        opened(observed(jobset=MCJAX)).show("gemma", attempt=attempt)


def test_an_attempt_that_is_gone() -> None:
    gone = observed("gemma", jobset=None, record=Recorded(outcome="created", jobset="gemma-3"))
    for name, first in (("gemma-3", (observed(jobset=MCJAX), gone)), ("gemma", (observed(jobset=SECOND),))):
        number = 3 if name == "gemma-3" else 1
        with pytest.raises(UsageError, match=f"Attempt {number} of gemma has no JobSet"):
            opened(*first).show("gemma", attempt=number)
    with pytest.raises(UsageError, match=r"no attempt 7\. .*: 1, 3 \(gone\)"):
        opened(observed(jobset=MCJAX), gone).show("gemma", attempt=7)


def test_a_run_on_this_machine_has_its_file() -> None:
    assert opened().show("tiny", tail=5) == ["one", "two"]
    with pytest.raises(UsageError, match="one process"):
        opened().show("tiny", slice_index=0)


def test_no_jobset_no_log() -> None:
    with pytest.raises(Unknown, match="deletes a log with its pod"):
        opened(observed(jobset=None, progress=None)).show("gemma")
    with pytest.raises(Unreachable, match="does not answer: timeout"):
        opened(observed(jobset=None, unread=(Unread(what="jobsets", why="timeout"),))).show("gemma")


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (LogRequest(), "head: it has not started, or its log was deleted with its pod"),
        (LogRequest(tail=0), "head: --tail 0 requests no lines"),
        (LogRequest(since=NOW), f"head since {NOW}: it has printed nothing since, or its log was deleted with its pod"),
    ],
)
def test_an_empty_log_is_reported(capsys: pytest.CaptureFixture[str], asked: LogRequest, why: str) -> None:
    told = opened()
    query = RunQuery(read=lambda: told.found, classify=judged, wanted=RowFilter(everything=True), now=lambda: NOW)
    world = LogsWorld(query=query, lines=lambda *_: iter(()), local_lines=told.local)
    assert logs("deep", asked=asked, world=world, timestamps=False, stdout=io.StringIO()) == 0
    assert capsys.readouterr().err.splitlines()[0] == f"No log lines from {why}"


def followed(*reads: Read, name: str = "gemma", follow: bool = True) -> tuple[list[str], list[float]]:
    """Return what is printed about the run's end, and the pauses; the log is found in the first answer."""
    told, said, paused = opened(), list[str](), list[float]()
    left = [told.found, *reads]
    query = RunQuery(
        read=lambda: left.pop(0) if len(left) > 1 else left[0],
        classify=classify,
        wanted=RowFilter(everything=True),
        now=lambda: NOW,
    )
    world = LogsWorld(query=query, lines=told.lines, local_lines=told.local, say=said.append, pause=paused.append)
    assert logs(name, asked=LogRequest(follow=follow), world=world, timestamps=False, stdout=io.StringIO()) == 0
    return said, paused


ENDED = (Condition(type="Failed", status="True", reason="ReachedMaxRestarts", message="", at=NOW),)
FAILED = observed("gemma", jobset=replace(MCJAX, terminal="Failed", conditions=ENDED))


def test_the_end_of_a_followed_run_is_printed() -> None:
    said, paused = followed(Read((FAILED,)))
    assert said == ["-- gemma  failed (trainer-failed)  step 120/1000  loss 2.346: xsft why gemma --"]
    assert paused == []
    assert followed(Read((FAILED,)), follow=False) == ([], [])


def test_a_cancel_that_is_recorded_a_moment_later_is_waited_for() -> None:
    gone = observed("gemma", jobset=None, record=Recorded(outcome="created", jobset="gemma", uid=MCJAX.uid))
    cancelled = replace(gone, record=Recorded(outcome="cancelled", jobset="gemma", uid=MCJAX.uid))
    said, paused = followed(Read((gone,)), Read((cancelled,)))
    assert said == ["-- gemma  cancelled  step 120  loss 2.346 --"]
    assert len(paused) == 1


def test_the_end_of_an_earlier_attempt_is_printed() -> None:
    """Not that of the one which runs now."""
    now = observed("gemma", jobset=replace(SECOND, run_name="gemma"))
    said, _ = followed(Read((FAILED, now)))
    assert "failed (trainer-failed)" in said[0]
    assert "starting" not in said[0]


def test_the_end_of_a_followed_run_on_this_machine_is_printed() -> None:
    other = local("other", record=Recorded(outcome="failed", started_at=NOW, finished_at=NOW))
    said, _ = followed(Read((other, local("tiny"))), name="tiny")
    assert said == ["-- tiny  succeeded  step 40/40  loss 2.346 --"]


def test_no_end_is_printed_if_no_cluster_answers() -> None:
    said, _ = followed(Read((), (), answered=False, whole=False))
    assert said == []


def test_a_reader_that_goes_away_is_no_bug() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    told = opened()
    query = RunQuery(read=lambda: told.found, classify=judged, wanted=RowFilter(everything=True), now=lambda: NOW)
    world = LogsWorld(query=query, lines=told.lines, local_lines=told.local)
    with pytest.raises(BrokenPipeError):  # xsft.cli ends with 141
        logs("gemma", asked=LogRequest(), world=world, timestamps=False, stdout=Closed())


@given(st.sampled_from([MCJAX, PATHWAYS, jobset(jobs=()), jobset(mode=None, tpu=None, jobs=MCJAX.jobs)]))
def test_every_process_has_one_name(there: RunObject) -> None:
    roles = all_roles(there)
    names = [role_text(there, role) for role in roles]
    assert len(set(names)) == len(roles)
    for role in roles[:1]:
        assert chosen_roles(there, slice_index=None, host=None, every=False) == (role,)


def test_the_words_of_the_processes() -> None:
    names = [role_text(PATHWAYS, role) for role in all_roles(PATHWAYS)]
    assert names[:3] == ["head", "slice 0 host 0", "slice 0 host 1"]
    server = jobset("s", jobs=(ReplicatedJob(name="server", replicas=1),), kind="Deployment", work="serve")
    assert [role_text(server, role) for role in all_roles(server)] == ["server"]
    beside = replace(MCJAX, jobs=(*MCJAX.jobs, ReplicatedJob(name="beside", replicas=1)))
    assert role_text(beside, ProcessRole(replicated_job="beside", slice_index=0, host=0)) == "beside"


@pytest.mark.parametrize(("tpu", "hosts"), [("v6e-8", 2), ("v99-8", 1), (None, 1)])
def test_a_slice_has_the_hosts_of_its_type(tpu: str | None, hosts: int) -> None:
    there = replace(MCJAX, tpu=tpu)
    assert len(all_roles(there)) == 2 * hosts
    with pytest.raises(UsageError, match=f"slice 0 has hosts 0 to {hosts - 1}; slice 1 has hosts 0 to {hosts - 1}"):
        chosen_roles(there, slice_index=2, host=None, every=False)


def test_without_jobs_no_process_is_known() -> None:
    with pytest.raises(UsageError, match="no such process: none is known") as raised:
        chosen_roles(replace(MCJAX, jobs=()), slice_index=0, host=None, every=False)
    assert raised.value.fix == "Slices and hosts count from 0."


def test_since_is_before_now() -> None:
    assert before("2026-11-21T12:00:00+00:00", 600) == "2026-11-21T11:50:00Z"
    assert before("2026-11-21T12:00:00+00:00", 1e11) == "0001-01-01T00:00:00Z"
    with pytest.raises(ValueError, match="not a valid time"):
        before("now", 1)

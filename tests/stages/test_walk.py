from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from xsft.base.errors import Refused, RunFailed, TimedOut, XsftError
from xsft.base.lenient import ShowLine
from xsft.base.stage import StageEnd, StageFound, StageName, StagePlan, StageState, StageVerdict
from xsft.stages.walk import WalkResult, WalkSettings, walk


@dataclass
class Recorded:
    """A stage that becomes done when it is performed, here or (with `on_cluster`) while it is watched."""

    name: StageName
    state: StageState = "missing"
    on_cluster: bool = False
    verdict: StageVerdict | None = None
    fails: XsftError | None = None
    slow: bool = False
    """Never ends within the time limit."""
    by_hand: bool = False
    dies: int = 0
    """How often the process that does it is killed while it is watched."""
    calls: list[str] = field(default_factory=list)

    @property
    def run_name(self) -> str:
        return f"tiny-{self.name}"

    def plan(self) -> StagePlan:
        return StagePlan(name=self.name, run_name=self.run_name, digest="d" * 64, writes=f"/out/{self.name}")

    def find(self) -> StageFound:
        stage_found = StageFound(
            state=self.state, why=f"it is {self.state}", result=self._result, verdict=self._verdict
        )
        return replace(stage_found, is_by_hand=self.by_hand)

    def perform(self, progress: ShowLine) -> StageEnd:
        self.calls.append("perform")
        if self.by_hand:
            return StageEnd(action="skipped", state="missing", why="start it by: xsft serve")
        if self.fails:
            raise self.fails
        self.state = "running" if self.on_cluster else "done"
        return StageEnd(
            action="created", state=self.state, why="it was missing", result=self._result, verdict=self._verdict
        )

    def watch(self, timeout_s: float | None) -> None:
        self.calls.append(f"watch {timeout_s}")
        if self.slow:
            raise TimedOut("timed out")
        self.dies -= 1
        self.state = "done" if self.dies < 0 else "torn"

    @property
    def _result(self) -> str | None:
        return f"/out/{self.name}" if self.state == "done" else None

    @property
    def _verdict(self) -> StageVerdict | None:
        return self.verdict if self.state == "done" else None


def walked(
    *stages: Recorded, waits: bool = True, first: StageName = "convert", last: StageName = "serve"
) -> WalkResult:
    return walk(stages, WalkSettings(left_s=lambda: 60.0, waits=waits, first=first, last=last))


def actions(walk_result: WalkResult) -> list[str]:
    return [report.action for report in walk_result.reports]


def test_missing_stages_are_performed_in_order_and_done_the_next_time() -> None:
    stages = (Recorded("convert"), Recorded("train"), Recorded("export"))
    assert actions(walked(*stages)) == ["created", "created", "created"]
    again = walked(*stages)
    assert actions(again) == ["done", "done", "done"]
    assert [report.result for report in again.reports] == ["/out/convert", "/out/train", "/out/export"]
    assert [stage.calls for stage in stages] == [["perform"]] * 3


def test_a_cluster_stage_is_watched_to_its_end() -> None:
    stages = (Recorded("convert", on_cluster=True), Recorded("train", on_cluster=True))
    walk_result = walked(*stages)
    assert [(r.action, r.state) for r in walk_result.reports] == [("created", "done"), ("created", "done")]
    assert stages[0].calls == ["perform", "watch 60.0"]


def test_walk_without_waiting_starts_the_first_stage_only() -> None:
    stages = (Recorded("convert", on_cluster=True), Recorded("train", on_cluster=True))
    walk_result = walked(*stages, waits=False)
    assert [(r.action, r.state, r.why) for r in walk_result.reports] == [
        ("created", "running", "it was missing"),
        ("waiting", None, "convert is not done yet"),
    ]
    assert walk_result.failed is None
    assert stages[1].calls == []


def test_running_stage_of_another_caller_is_adopted() -> None:
    stage = Recorded("train", state="running")
    assert actions(walked(stage)) == ["adopted"]
    assert stage.calls == ["watch 60.0"]


def test_stage_whose_process_was_killed_is_performed() -> None:
    stage = Recorded("train", state="running", dies=1)
    assert [(r.action, r.state) for r in walked(stage).reports] == [("created", "done")]
    assert stage.calls == ["watch 60.0", "perform"]


@pytest.mark.parametrize("error", [RunFailed("the data ended"), Refused("another run is there")])
def test_error_ends_the_walk_and_later_stages_wait(error: XsftError) -> None:
    walk_result = walked(Recorded("convert", state="done"), Recorded("train", fails=error), Recorded("export"))
    assert actions(walk_result) == ["done", "waiting", "waiting"]
    assert walk_result.failed is error
    assert walk_result.reports[2].why == "train failed"


def test_a_time_limit_leaves_the_stage_running() -> None:
    walk_result = walked(Recorded("train", on_cluster=True, slow=True), Recorded("export"))
    assert isinstance(walk_result.failed, TimedOut)
    assert [(r.action, r.state) for r in walk_result.reports] == [("created", "running"), ("waiting", None)]


@pytest.mark.parametrize("state", ["missing", "done"])
def test_failed_verdict_ends_the_walk_each_time(state: StageState) -> None:
    walk_result = walked(Recorded("evaluate", state=state, verdict="failed"), Recorded("export"))
    assert isinstance(walk_result.failed, RunFailed)
    assert walk_result.failed.problem_id == "verdict-failed"
    assert "Read the answers in /out/evaluate" in walk_result.failed.fix
    assert actions(walk_result)[1] == "waiting"


def test_walk_continues_after_a_verdict_that_is_not_judged() -> None:
    assert walked(Recorded("evaluate", verdict="not-judged"), Recorded("export")).failed is None


def test_walk_skips_stages_outside_from_and_to() -> None:
    stages = (Recorded("convert", state="done"), Recorded("train", state="done"), Recorded("export"), Recorded("serve"))
    walk_result = walked(*stages, first="export", last="export")
    assert actions(walk_result) == ["skipped", "skipped", "created", "skipped"]
    assert [r.state for r in walk_result.reports] == [None, None, "done", None]


def test_stage_whose_skipped_input_is_not_done_is_refused() -> None:
    stages = (Recorded("train"), Recorded("export"))
    walk_result = walked(*stages, first="export")
    assert isinstance(walk_result.failed, Refused)
    assert walk_result.failed.problem_id == "stage-not-done"
    assert stages[1].calls == []


def test_a_stage_that_the_user_starts_is_skipped_without_beginning() -> None:
    begun: list[str] = []
    settings = WalkSettings(left_s=lambda: None, begin=lambda stage, _found: begun.append(stage.name))
    served = walk((Recorded("export"), Recorded("serve", by_hand=True)), settings)
    assert (actions(served), begun) == (["created", "skipped"], ["export"])


@pytest.mark.parametrize(("converted", "named"), [("missing", "convert"), ("done", "train")])
def test_refusal_names_the_first_stage_that_is_not_done(converted: StageState, named: str) -> None:
    walk_result = walked(Recorded("convert", converted), Recorded("train"), Recorded("export"), first="export")
    assert walk_result.failed is not None
    assert "needs the result of train, which is not done: it is missing" in walk_result.failed.message
    assert f"--from {named}." in walk_result.failed.fix

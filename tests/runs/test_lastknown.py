"""The last known state of runs: kept on disk, read back, and never an error."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.observations import NOW, finished, jobset, observed, queued, said
from tests.replacing import replace
from tests.runs.arbitrary import observations
from xsft.cluster.observation import Before, Observation, Recorded, Status, Unread
from xsft.runs.classify import classify
from xsft.runs.lastknown import FORGET_AFTER_S, LastKnown, forget, gone_of, line_of, read_line, recall, remember
from xsft.runs.rows import row_of

CLUSTER = "my-project/us-east5-b/my-cluster"
TRAINING = Status(state="training", evidence=("jobset", "log"))
DONE = Status(state="succeeded", evidence=("jobset", "log"))
SILENT = (Unread(what="jobsets", why="no answer"),)


def kept(state: Path) -> dict[str, Observation]:
    known_runs = recall(state, cluster=CLUSTER, namespace="default")
    return {uid: known_run.observation(CLUSTER, unread=SILENT) for uid, known_run in known_runs.items()}


def living(state: Path) -> set[str]:
    """Names of those that are not known to be gone."""
    known_runs = recall(state, cluster=CLUSTER, namespace="default")
    return {known_run.jobset.run_name for known_run in known_runs.values() if not known_run.gone}


def only_file(state: Path) -> Path:
    (path,) = (state / "known").glob("*.jsonl")
    return path


def test_a_run_of_a_silent_cluster_is_shown_with_its_age(tmp_path: Path) -> None:
    observation = observed("gemma")
    remember(tmp_path, [(observation, TRAINING)], now=NOW)
    (old,) = kept(tmp_path).values()
    later = "2026-11-21T13:00:00Z"
    status = classify(old)
    row = row_of(old, status, now=later)
    assert (row.state, row.tpu, row.num_slices, row.namespace) == ("training", "v6e-256", 2, "default")
    assert (row.step, row.loss, row.steps) == (120, 2.3456, 1000)
    assert row.evidence_age_s == pytest.approx(3604)
    assert row.unread == ("jobsets: no answer",)


@pytest.mark.parametrize("what", ["log", "record", "metrics", "checkpoints"])
def test_an_ended_run_with_unread_output_is_read_again(tmp_path: Path, what: Any) -> None:
    unread = (Unread(what=what, why="not read in time", passed_over=True),)
    late = replace(finished("gemma", at="2026-11-21T11:30:00Z"), progress=None, unread=unread)
    remember(tmp_path, [(late, DONE)], now=NOW)
    (known_run,) = recall(tmp_path, cluster=CLUSTER, namespace="default").values()
    assert known_run.unheard


@settings(max_examples=20)
@given(seen=observations)
def test_every_field_of_last_known_is_read_back(seen: Observation, tmp_path_factory: pytest.TempPathFactory) -> None:
    state = tmp_path_factory.mktemp("state")
    record = Recorded(outcome="completed", finished_at=NOW)
    complete = replace(seen, cluster=CLUSTER, jobset=seen.jobset or jobset(), last_known=None, record=record)
    complete = replace(complete, observed_at=NOW, read_at="2026-11-21T12:00:05Z", mode="x")
    remember(state, [(complete, TRAINING)], now=NOW)
    assert complete.jobset is not None
    known_run = recall(state, cluster=CLUSTER, namespace=complete.jobset.namespace)[complete.jobset.uid]
    fields_kept = ("jobset", "observed_at", "read_at", "progress", "steps", "mode", "before", "found")
    last_known = LastKnown(status=TRAINING, **{name: getattr(complete, name) for name in fields_kept})
    assert known_run == read_line(line_of(last_known)), (
        "without what changes quickly; the JobSet tells the time of its end"
    )


def test_the_file_is_private_and_lists_the_newest_run_first(tmp_path: Path) -> None:
    """What exceeds MAX_RUNS is the oldest."""
    older = observed("older", observed_at="2026-11-21T11:00:00Z")
    remember(tmp_path, [(older, TRAINING), (observed("newer"), TRAINING)], now=NOW)
    file = only_file(tmp_path)
    assert re.fullmatch(r"my-project_us-east5-b_my-cluster-[0-9a-f]{12}\.jsonl", file.name)
    assert file.stat().st_mode & 0o777 == 0o600
    first, *lines = file.read_text().splitlines()
    assert json.loads(first) == {"schema": "xsft.known/3", "cluster": CLUSTER, "namespace": "default", "at": NOW}
    assert [json.loads(line)["jobset"]["name"] for line in lines] == ["newer", "older"]


def test_the_end_of_a_run_is_kept_with_its_time(tmp_path: Path) -> None:
    ended_run = finished("gemma", at="2026-11-21T11:30:00Z")
    remember(tmp_path, [(ended_run, DONE)], now=NOW)
    (old,) = kept(tmp_path).values()
    assert old.jobset is not None
    assert old.jobset.terminal == "Completed"
    assert row_of(old, classify(old), now=NOW).ended_at == "2026-11-21T11:30:00Z"


def test_the_cause_of_a_failure_is_kept_and_shown_after_the_restart(tmp_path: Path) -> None:
    starting = Status(state="starting", reason="pods-not-ready")
    remember(tmp_path, [(observed("a", found="killed for memory"), starting), (observed("b"), TRAINING)], now=NOW)
    remember(tmp_path, [(observed("a"), starting), (observed("b"), TRAINING)], now=NOW)
    known_runs = recall(tmp_path, cluster=CLUSTER, namespace="default")
    assert (known_runs["uid-a"].found, known_runs["uid-b"].found) == ("killed for memory", "")
    before = known_runs["uid-a"].as_before()
    assert before.found == "killed for memory"
    remember(tmp_path / "other", [(observed("a", found="killed for memory"), starting)], now=NOW)
    remember(tmp_path / "other", [(observed("a"), TRAINING)], now=NOW)
    assert not recall(tmp_path / "other", cluster=CLUSTER, namespace="default")["uid-a"].found, "it runs again"
    again = observed("a", jobset=jobset("a", restarts=1), before=before)
    remember(tmp_path, [(again, starting)], now=NOW)
    known_runs = recall(tmp_path, cluster=CLUSTER, namespace="default")
    assert (known_runs["uid-a"].found, known_runs["uid-a"].before) == ("", before)
    remember(tmp_path, [(again, TRAINING)], now=NOW)
    known_runs = recall(tmp_path, cluster=CLUSTER, namespace="default")
    assert (known_runs["uid-a"].found, known_runs["uid-a"].before) == ("", before)


def test_progress_is_kept_while_the_log_is_not_read(tmp_path: Path) -> None:
    """With many runs, most logs are not read each time. The progress of an ended run would pass for its last."""

    def step(**how: Any) -> int | None:
        remember(tmp_path, [(replace(observed("a"), **how), how.pop("status", TRAINING))], now=NOW)
        progress = recall(tmp_path, cluster=CLUSTER, namespace="default")["uid-a"].progress
        return progress.step if progress else None

    assert step() == 120
    assert step(progress=None) == 120
    assert step(progress=None) == 120
    assert step(progress=None, jobset=jobset("a", restarts=1)) is None, "another process"
    assert step() == 120
    failed = replace(observed("a"), progress=None, jobset=jobset("a", terminal="Failed"))
    remember(tmp_path, [(failed, Status(state="failed"))], now=NOW)
    assert recall(tmp_path, cluster=CLUSTER, namespace="default")["uid-a"].progress is None


def test_remember_adds_to_the_known_runs(tmp_path: Path) -> None:
    remember(tmp_path, [(observed("one"), TRAINING), (observed("two"), TRAINING)], now=NOW)
    remember(tmp_path, [(observed("one", observed_at="2026-11-21T12:30:00Z"), DONE)], now="2026-11-21T12:30:00Z")
    states = {
        observation.run_name: observation.last_known.state
        for observation in kept(tmp_path).values()
        if observation.last_known
    }
    assert states == {"one": "succeeded", "two": "training"}


def test_forget_marks_missing_runs_as_no_longer_running(tmp_path: Path) -> None:
    """A run was cancelled, or its TTL ran out, between two reads; the end of an ended run stays known."""
    end = observed("ended")
    remember(tmp_path, [(observed("gone"), TRAINING), (observed("there"), TRAINING), (end, DONE)], now=NOW)
    known_runs = recall(tmp_path, cluster=CLUSTER, namespace="default")
    assert gone_of(known_runs, {"uid-there"}) == {"uid-gone"}
    forget(tmp_path, cluster=CLUSTER, namespace="default", gone={"uid-gone"}, now=NOW)
    assert living(tmp_path) == {"there", "ended"}
    assert gone_of(recall(tmp_path, cluster=CLUSTER, namespace="default"), {"uid-there"}) == set()
    forget(tmp_path, cluster="another", namespace="default", gone={"uid-there"}, now=NOW)
    assert living(tmp_path) == {"there", "ended"}


def test_the_progress_of_a_deleted_run_is_kept(tmp_path: Path) -> None:
    remember(tmp_path, [(observed("gone"), TRAINING)], now=NOW)
    for _ in range(2):
        forget(tmp_path, cluster=CLUSTER, namespace="default", gone={"uid-gone"}, now=NOW)
    (line,) = only_file(tmp_path).read_text().splitlines()[1:]
    assert line.count('"gone": true') == 1
    uid_gone = recall(tmp_path, cluster=CLUSTER, namespace="default")["uid-gone"]
    assert (uid_gone.gone, uid_gone.ended, uid_gone.jobset.tpu, uid_gone.status) == (True, False, "v6e-256", TRAINING)
    assert uid_gone.progress is not None
    assert (uid_gone.progress.step, uid_gone.progress.loss) == (120, 2.3456)
    remember(tmp_path, [(observed("gone"), TRAINING)], now=NOW)  # a list that lacked it was wrong
    assert living(tmp_path) == {"gone"}


def test_the_end_of_a_deleted_run_is_kept_with_its_time(tmp_path: Path) -> None:
    observation = observed("gone")
    record = Recorded(outcome="cancelled", finished_at="2026-11-21T11:00:00Z")
    gone = replace(observation, jobset=None, was=observation.jobset, record=record)
    remember(tmp_path, [(gone, Status(state="unknown", reason="jobset-gone"))], now=NOW)
    assert recall(tmp_path, cluster=CLUSTER, namespace="default") == {}
    remember(tmp_path, [(gone, Status(state="cancelled", evidence=("record",)))], now=NOW)
    uid_gone = recall(tmp_path, cluster=CLUSTER, namespace="default")["uid-gone"]
    assert (uid_gone.status.state, uid_gone.ended, uid_gone.ended_at) == ("cancelled", True, "2026-11-21T11:00:00Z")
    assert uid_gone.jobset.tpu == "v6e-256"


def test_the_state_before_a_restart_is_kept(tmp_path: Path) -> None:
    before = Before(at=NOW, state="training", reason="evaluating", step=7, saved_step=5)
    remember(tmp_path, [(observed("a", before=before), TRAINING)], now=NOW)
    uid_a = recall(tmp_path, cluster=CLUSTER, namespace="default")["uid-a"]
    assert uid_a.before == before
    assert uid_a.observation(CLUSTER, unread=SILENT).before == before
    assert uid_a.as_before() == Before(at="2026-11-21T11:59:56Z", state="training", step=120, saved_step=100)


def test_counts_of_steps_without_targets_or_finite_loss_are_kept(tmp_path: Path) -> None:
    progress = said(no_target_steps=3, not_finite_steps=4, zero_loss_steps=5)
    remember(tmp_path, [(observed("a", progress=progress), TRAINING)], now=NOW)
    run_progress = recall(tmp_path, cluster=CLUSTER, namespace="default")["uid-a"].progress
    assert run_progress is not None
    assert (run_progress.no_target_steps, run_progress.not_finite_steps, run_progress.zero_loss_steps) == (3, 4, 5)


def test_runs_not_seen_for_long_are_removed(tmp_path: Path) -> None:
    remember(tmp_path, [(observed("old", observed_at="2026-10-01T00:00:00Z"), DONE)], now="2026-10-01T00:00:00Z")
    remember(tmp_path, [(observed("lately", observed_at="2026-11-08T12:00:00Z"), DONE)], now="2026-11-08T12:00:00Z")
    remember(tmp_path, [(observed("new"), TRAINING)], now=NOW)
    assert 13 * 24 * 3600 < FORGET_AFTER_S < 51 * 24 * 3600
    assert {observation.run_name for observation in kept(tmp_path).values()} == {"lately", "new"}


def test_unknown_recalled_and_local_states_are_not_kept(tmp_path: Path) -> None:
    nothing = Status(state="unknown", reason="steps-not-read")
    recalled = observed("gemma", last_known=TRAINING, unread=SILENT)
    remember(tmp_path, [(observed("x"), nothing), (recalled, TRAINING), (observed("y", cluster=None), DONE)], now=NOW)
    assert not (tmp_path / "known").exists()


def test_clusters_and_namespaces_are_kept_apart(tmp_path: Path) -> None:
    remember(tmp_path, [(observed("a"), TRAINING), (observed("a", cluster="kind"), DONE)], now=NOW)
    assert recall(tmp_path, cluster="kind", namespace="other") == {}
    assert [k.status.state for k in recall(tmp_path, cluster="kind", namespace="default").values()] == ["succeeded"]


def test_an_unwritable_folder_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "known").write_text("a file")
    remember(tmp_path, [(observed("a"), TRAINING)], now=NOW)
    assert kept(tmp_path) == {}


@pytest.mark.parametrize("text", ["", "null", "[]", "{", '{"schema": "other/1"}\n{}', "\x00", "[" * 100_000])
def test_an_invalid_file_is_read_as_empty(tmp_path: Path, text: str) -> None:
    remember(tmp_path, [(observed("a"), TRAINING)], now=NOW)
    only_file(tmp_path).write_text(text)
    assert kept(tmp_path) == {}
    remember(tmp_path, [(queued("b"), TRAINING)], now=NOW)
    assert len(kept(tmp_path)) == 1


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)


@given(st.data())
def test_a_file_of_another_version_is_read_without_an_error(tmp_path_factory: Any, data: st.DataObject) -> None:
    state = tmp_path_factory.mktemp("state")
    remember(state, [(observed("a"), TRAINING), (finished("b", at=NOW), DONE)], now=NOW)
    first, *lines = only_file(state).read_text().splitlines()
    run = json.loads(lines[0])
    part = data.draw(st.sampled_from([run, *(v for v in run.values() if isinstance(v, dict) and v)]))
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(VALUES)
    lines[0] = data.draw(st.sampled_from([json.dumps(run), json.dumps(run, indent=None, separators=(",", ":"))]))
    only_file(state).write_text("\n".join((first.replace("known/3", "known/9"), *lines)))
    found = kept(state)
    assert 1 <= len(found) <= 2
    assert all(
        classify(replace(observation, unread=SILENT)) == observation.last_known for observation in found.values()
    )


def test_a_truncated_file_keeps_its_complete_lines(tmp_path: Path) -> None:
    remember(tmp_path, [(observed("a"), TRAINING), (finished("b", at=NOW), DONE)], now=NOW)
    text = only_file(tmp_path).read_text()
    only_file(tmp_path).write_text(text[: text.rindex("observed_at")])
    assert len(kept(tmp_path)) == 1
    only_file(tmp_path).write_text(text[:-5])
    assert len(kept(tmp_path)) == 1


def test_a_broken_line_does_not_hide_others(tmp_path: Path) -> None:
    remember(tmp_path, [(observed("a"), TRAINING), (observed("b"), DONE)], now=NOW)
    lines = only_file(tmp_path).read_text().splitlines()
    (broken,) = [broken_line for broken_line in lines if '"uid-b"' in broken_line]
    text = "\n".join(lines).replace(broken, broken.replace('"jobset": {', '"jobset": {{'))
    only_file(tmp_path).write_bytes(text.encode() + b"\n\xff\xfe")
    known_runs = recall(tmp_path, cluster=CLUSTER, namespace="default")
    assert known_runs["uid-a"].status == TRAINING
    assert "uid-b" not in known_runs
    assert list(known_runs) == ["uid-a"]

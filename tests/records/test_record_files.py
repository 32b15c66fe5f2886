"""An attempt begins once, even if a writer dies or an answer is late; records are read back as written."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from threading import Barrier, Thread

import pytest

from tests.fakes.gcs import Bucket, Failure
from tests.localruns import FakeTrainer, local_plan
from tests.machine.test_objects import remote
from tests.records.test_document import WHOLE
from tests.replacing import replace
from xsft.base.errors import EnvironmentMissing, Unreachable, UsageError
from xsft.base.problems import note
from xsft.launch.local_run import run_local
from xsft.machine.objects import LocalObjects, Objects
from xsft.records.record import AttemptFacts, ReadBack, Record
from xsft.records.record_files import RecordRef, RecordStore, TakenAttempt, record_store

CREATED = AttemptFacts(outcome="created", at="t1", submitter="a" * 16, uid="u-1", read_back=ReadBack(outcome="same"))


@pytest.fixture(params=["here", "bucket"])
def place(request: pytest.FixtureRequest, bucket: Bucket, tmp_path: Path) -> tuple[RecordStore, str]:
    objects: Objects = LocalObjects() if request.param == "here" else remote(bucket)
    output = str(tmp_path / "runs") if request.param == "here" else "gs://my-bucket/runs"
    return store(tmp_path, objects), output


def store(folder: Path, objects: Objects) -> RecordStore:
    return RecordStore(state=folder / "state", objects_at=lambda _: objects, now=lambda: "now")


def intent(output: str, *, number: int = 1, by: str = "a" * 16, **changes: object) -> Record:
    attempt = replace(WHOLE.last, number=number, submitter=by, outcome="submitting", uid=None, created_at=None)
    attempt = replace(attempt, created_by=None, read_back=None, **changes)  # type: ignore[arg-type]
    return replace(WHOLE, output=output, attempts=(attempt,), losses={})


def begun(store: RecordStore, record: Record) -> RecordRef:
    ref = store.begin(record)
    assert isinstance(ref, RecordRef)
    return ref


def test_a_begun_and_finished_attempt_is_read_back(place: tuple[RecordStore, str]) -> None:
    records, output = place
    assert records.read_run(output, "a-run") == ()
    ref = begun(records, intent(output))
    assert records.read_run(output, "a-run") == (intent(output),)
    finished = records.finish(ref, CREATED)
    assert ref.path == f"{output}/a-run/xsft/attempt-1.json"
    (read,) = records.read_run(output, "a-run")
    assert read == finished.record
    assert (read.outcome, read.last.uid, read.last.created_by) == ("created", "u-1", "a" * 16)
    assert (ref.problems, finished.problems) == ((), ())


def test_a_killed_submitter_leaves_an_attempt_that_another_can_finish(place: tuple[RecordStore, str]) -> None:
    records, output = place
    begun(records, intent(output))  # and then nothing more
    (read,) = records.read_run(output, "a-run")
    assert (read.outcome, read.last.uid) == ("submitting", None)
    taken_attempt = records.begin(intent(output, by="b" * 16))
    assert isinstance(taken_attempt, TakenAttempt)
    assert taken_attempt.there == read
    finished = records.finish(taken_attempt.ref, replace(CREATED, submitter="b" * 16))
    assert records.read_run(output, "a-run") == (finished.record,)
    assert (finished.record.outcome, finished.record.last.created_by) == ("created", "b" * 16)


def test_the_record_is_that_of_the_submitter_that_created_the_jobset(place: tuple[RecordStore, str]) -> None:
    records, output = place
    first = begun(records, intent(output))
    corrected = replace(intent(output, by="b" * 16), spec_digest="e" * 64, spec={"train": {"steps": 9}}, steps=9)
    taken_attempt = records.begin(corrected)
    assert isinstance(taken_attempt, TakenAttempt)
    assert records.read_run(output, "a-run") == (intent(output),)
    records.finish(taken_attempt.ref, replace(CREATED, submitter="b" * 16, at="t2"))
    records.finish(first, replace(CREATED, outcome="not-created", at="t3", reason="it exists"))
    (read,) = records.read_run(output, "a-run")
    assert (read.spec_digest, read.steps, read.last.submitter) == ("e" * 64, 9, "b" * 16)
    assert (read.outcome, read.last.uid, read.last.reason) == ("created", "u-1", None)


def test_only_one_of_several_concurrent_submitters_begins_an_attempt(place: tuple[RecordStore, str]) -> None:
    records, output = place
    start, results = Barrier(4), []

    def submit(n: int) -> None:
        start.wait()
        results.append(records.begin(intent(output, by=str(n) * 16)))

    threads = [Thread(target=submit, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [r for r in results if isinstance(r, RecordRef)]
    losers = [r for r in results if isinstance(r, TakenAttempt)]
    assert (len(winners), len(losers)) == (1, 3)
    assert {loser.there.last.submitter for loser in losers} == {winners[0].record.last.submitter}
    assert len(records.read_run(output, "a-run")) == 1
    others = {f"attempt-1.intent.{loser.ref.record.last.submitter}.json" for loser in losers}
    assert {*records.objects_at(output).names(f"{output}/a-run/xsft")} == {"attempt-1.json", *others}


def test_two_ends_of_one_attempt_are_both_kept(place: tuple[RecordStore, str]) -> None:
    records, output = place
    ref = begun(records, intent(output))
    first = replace(CREATED, problems=(note("one", "", "m"),))
    second = replace(CREATED, at="t2", submitter="c" * 16, problems=(note("two", "", "m"),))
    for facts in (first, second, first):
        records.finish(ref, facts)
    (read,) = records.read_run(output, "a-run")
    assert [p.id for p in read.last.problems] == ["w", "one", "two"]
    names = records.objects_at(output).names(f"{output}/a-run/xsft")
    assert names == ("attempt-1.created.cccccccccccccccc.json", "attempt-1.created.json", "attempt-1.json")


def test_an_end_without_a_submitter_is_kept_once(place: tuple[RecordStore, str]) -> None:
    records, output = place
    ref = begun(records, intent(output))
    for _ in range(2):
        records.finish(ref, replace(CREATED, submitter=""))
    names = records.objects_at(output).names(f"{output}/a-run/xsft")
    assert names == ("attempt-1.created.json", "attempt-1.json")


def test_attempts_are_in_order_each_with_its_own_spec(place: tuple[RecordStore, str]) -> None:
    records, output = place
    for number in (2, 10, 1):
        begun(records, replace(intent(output, number=number), steps=number))
    read = records.read_run(output, "a-run")
    assert [(r.last.number, r.steps) for r in read] == [(1, 1), (2, 2), (10, 10)]
    assert records.read_run(f"{output}/", "a-run") == read


def test_a_begin_whose_response_is_lost_still_belongs_to_its_submitter(bucket: Bucket, tmp_path: Path) -> None:
    bucket.failures.append(Failure(match="POST", cut=True))
    ref = store(tmp_path, remote(bucket)).begin(intent("gs://my-bucket/runs"))
    assert isinstance(ref, RecordRef)
    assert list(bucket.objects) == ["runs/a-run/xsft/attempt-1.json"]


def test_a_bucket_that_denies_writing_gets_no_record_and_no_entry(bucket: Bucket, tmp_path: Path) -> None:
    bucket.status = 403
    records = store(tmp_path, remote(bucket))
    with pytest.raises(Unreachable, match="permission denied"):
        records.begin(intent("gs://my-bucket/runs"))
    assert (bucket.objects, records.local_index().entries) == ({}, ())


def test_a_full_disk_is_reported_and_leaves_no_file(tmp_path: Path) -> None:
    def full(fd: int, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    records = store(tmp_path, LocalObjects(write=full))
    with pytest.raises(EnvironmentMissing, match="the disk is full"):
        records.begin(intent(str(tmp_path / "runs")))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("content", ["", "{", '{"schema": "xsft.record/1", "run_name": "a-run"}', "\0" * 9])
def test_a_torn_record_is_an_unknown_attempt_and_cannot_be_begun_again(content: str, tmp_path: Path) -> None:
    records, output = store(tmp_path, LocalObjects()), str(tmp_path / "runs")
    ref = begun(records, intent(output))
    Path(ref.path).write_text(content)
    (read,) = records.read_run(output, "a-run")
    assert (read.outcome, read.last.number, read.unread) == ("unknown", 1, ("attempt-1.json",))
    assert isinstance(records.begin(intent(output, by="b" * 16)), TakenAttempt)


def test_unreadable_files_of_an_attempt_are_named(tmp_path: Path) -> None:
    records, output = store(tmp_path, LocalObjects()), str(tmp_path / "runs")
    ref = records.finish(begun(records, intent(output)), CREATED)
    Path(ref.path).with_name("attempt-1.failed.json").write_text("{")
    (read,) = records.read_run(output, "a-run")
    assert (read.outcome, read.unread) == ("created", ("attempt-1.failed.json",))


def test_other_files_in_the_folder_are_ignored(tmp_path: Path) -> None:
    records, output = store(tmp_path, LocalObjects()), str(tmp_path / "runs")
    folder = Path(begun(records, intent(output)).path).parent
    for name in ("attempt-0.json", "attempt-x.json", ".attempt-2.json.tmp", "loss.png", "attempt-11.created.json"):
        (folder / name).write_text("{}")
    assert records.read_run(output, "a-run") == (intent(output),)


def test_the_number_of_an_attempt_comes_from_its_file_name(tmp_path: Path) -> None:
    records, output = store(tmp_path, LocalObjects()), str(tmp_path / "runs")
    path = Path(begun(records, intent(output)).path)
    path.rename(path.with_name("attempt-7.json"))
    assert [run_record.last.number for run_record in records.read_run(output, "a-run")] == [7]


def test_known_fields_of_a_newer_record_are_read(tmp_path: Path) -> None:
    records, output = store(tmp_path, LocalObjects()), str(tmp_path / "runs")
    ref = begun(records, intent(output))
    document = json.loads(Path(ref.path).read_text()) | {"schema": "xsft.record/2", "where": {"moon": 1}}
    Path(ref.path).write_text(json.dumps(document))
    (read,) = records.read_run(output, "a-run")
    assert replace(read, schema="xsft.record/1") == intent(output)


@pytest.mark.parametrize("name", ["../other", "a/b", "", ".", "..", "a\0b"])
def test_an_invalid_run_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        store(tmp_path, LocalObjects()).read_run(str(tmp_path), name)
    assert caught.value.fix == "A run needs an output and a name of letters, digits, dots, dashes and underscores."


def test_read_run_reads_local_runs(tmp_path: Path) -> None:
    trainer = FakeTrainer(folder=tmp_path)
    for steps in (2, 4):
        plan = local_plan(tmp_path / "runs", train__steps=steps, train__checkpoint_period=1)
        run_local(plan, machine=trainer.machine(), on_event=lambda _: None)
    first, second = store(tmp_path, LocalObjects()).read_run(str(tmp_path / "runs"), plan.run_name)
    assert (first.target, first.last.number, first.outcome, first.losses) == ("local", 1, "completed", {})
    assert (len(first.attempts), len(second.attempts)) == (1, 1)
    assert (second.last.number, second.last.resumed_from, second.outcome) == (2, 2, "completed")
    assert sorted(second.losses) == [1, 2, 3, 4]
    assert second.spec_digest == plan.spec_digest


def test_a_broken_local_record_is_an_unknown_attempt(tmp_path: Path) -> None:
    folder = tmp_path / "a-run" / "xsft"
    folder.mkdir(parents=True)
    for content in ("{", '{"schema": "xsft.record/1", "run_name": "a-run"}'):
        (folder / "run.json").write_text(content)
        (read,) = store(tmp_path, LocalObjects()).read_run(str(tmp_path), "a-run")
        assert (read.outcome, read.last.number, read.unread) == ("unknown", 1, ("run.json",))


def test_a_token_is_written_to_no_record_and_no_index(place: tuple[RecordStore, str]) -> None:
    records, output = place
    token, word = "hf_" + secrets.token_hex(20), "pw" + secrets.token_hex(8)
    secrets_given = {
        "env": {"A": f"x{token}", "DB_PASSWORD": word, "URL": f"https://me:{word}@host"},
        "argv": ("python3", "-m", "m", f"hf_access_token={word}"),
        "user": token,
        "namespace": token,
    }
    ref = begun(records, intent(output, **secrets_given))
    records.finish(ref, replace(CREATED, outcome="failed", reason=f"GET https://{word}@host: Bearer {token}"))
    folder = f"{output}/a-run/xsft"
    objects = records.objects_at(folder)
    texts = [objects.read(f"{folder}/{name}", limit=10**6) or b"" for name in objects.names(folder)]
    texts += [path.read_bytes() for path in (records.state / "runs").glob("*.json")]
    assert len(texts) == 3
    assert [text for text in texts if token.encode() in text or word.encode() in text] == []


# The index on this machine


def test_the_index_contains_begun_attempts_and_later_their_uid(place: tuple[RecordStore, str]) -> None:
    records, output = place
    ref = begun(records, intent(output))
    (entry,) = records.local_index().entries
    assert (entry.run_name, entry.output, entry.uid, entry.jobset) == ("a-run", output, None, "a-run-2")
    records.finish(ref, CREATED)
    begun(records, replace(intent(output), run_name="other"))
    entries = {entry.run_name: entry for entry in records.local_index().entries}
    assert set(entries) == {"a-run", "other"}
    assert (entries["a-run"].uid, entries["a-run"].cluster) == ("u-1", WHOLE.last.cluster)
    assert entries["a-run"].record == ref.path


def test_an_unwritable_index_is_a_warning_and_the_record_exists(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file in the way")
    records, output = store(tmp_path, LocalObjects()), str(tmp_path / "runs")
    ref = begun(records, intent(output))
    assert [(p.id, p.severity) for p in ref.problems] == [("index-not-written", "warning")]
    assert len(records.read_run(output, "a-run")) == 1


def test_the_folder_of_the_store_comes_from_the_environment(tmp_path: Path) -> None:
    records = record_store({"XSFT_STATE_DIR": str(tmp_path / "s"), "HOME": str(tmp_path)})
    begun(records, intent(str(tmp_path / "runs")))
    assert [path.parent for path in tmp_path.rglob("a-run-*.json")] == [tmp_path / "s" / "runs"]
    assert os.stat(tmp_path / "s" / "runs").st_mode & 0o777 == 0o700
    with pytest.raises(Unreachable, match="no Google Cloud login"):
        records.read_run("gs://my-bucket/runs", "a-run")
    assert record_store({"HOME": str(tmp_path)}).state.is_relative_to(tmp_path)

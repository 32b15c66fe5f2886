"""The process of a conversion's container: it claims the folder and records its end, in a bucket and in a folder.

Real processes, with a bucket on loopback. The converter is a stand-in.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.gcs import Bucket, serving
from tests.until import until
from xsft.launcher.cpujob import recorded_argv
from xsft.records.document import facts_to_json, read_facts
from xsft.records.record import AttemptFacts
from xsft.spec.conversion_inputs import ConversionRecord, read_conversion
from xsft.weights.conversion_plan import SOURCE

pytestmark = pytest.mark.contract

CONVERTER = """
import os, sys, time
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen
step, status, names = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
for name in names:
    if name == "hang":
        print("hanging", flush=True)
        time.sleep(600)
    file, _, text = name.partition("=")
    if step.startswith("gs://"):
        bucket, _, folder = step.removeprefix("gs://").partition("/")
        at = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(folder + '/' + file, safe='')}"
        urlopen(Request(os.environ["STORAGE_EMULATOR_HOST"] + at, data=text.encode(), method="POST")).read()
    else:
        Path(step, file).parent.mkdir(parents=True, exist_ok=True)
        Path(step, file).write_text(text)
sys.exit(status)
"""
WHOLE = ("items/_METADATA={}", '_CHECKPOINT_METADATA={"commit_timestamp_nsecs": 1}')
TORN = ("items/_METADATA={}", '_CHECKPOINT_METADATA={"commit_timestamp_nsecs": null}')


WORKER = "import json, sys; json.dump({answer!r}, open(sys.argv[-1], 'w'))"


class Container:
    """A container's program, with what it wrote in a bucket or folder."""

    def __init__(self, root: str, bucket: Bucket) -> None:
        self.root, self._bucket = root, bucket

    def start(
        self,
        *converts: str,
        status: int = 0,
        env: Mapping[str, str] | None = None,
        compares: Mapping[str, Any] | None = None,
    ) -> subprocess.Popen[str]:
        """`compares`: the answer of a stand-in for the program that compares the result with its source."""
        command = (sys.executable, "-c", CONVERTER, f"{self.root}/converted/tiny-0/0", str(status), *converts)
        end = facts_to_json(AttemptFacts(outcome="completed", at=""), run_name="tiny-convert", number=2)
        python, *arguments = recorded_argv(
            command,
            record=ConversionRecord(digest="d" * 64, run_name="tiny-convert", argv=("python3", "-m", "x")),
            end={"attempt": json.loads(end), "attempt_stem": f"{self.root}/tiny-convert/xsft/attempt-2"},
            checkpoint=f"{self.root}/converted/tiny-0/0/items",
            comparison={"module": SOURCE, "notes": {"compared": {}}} if compares else None,
        )
        assert python == "python3"
        document = json.loads(arguments[2])
        document["files"]["compare_source.py"] = WORKER.format(answer=compares)
        argv = (sys.executable, *arguments[:2], json.dumps(document), *arguments[3:])
        environment = {"STORAGE_EMULATOR_HOST": self._bucket.url, "PATH": os.environ["PATH"], **(env or {})}
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, env=environment, stdout=pipe, text=True, start_new_session=True)

    def run(self, *converts: str, **how: Any) -> tuple[int, str]:
        with self.start(*converts, **how) as process:
            output, _ = process.communicate(timeout=300)
        return process.returncode, output

    def read(self, path: str) -> bytes | None:
        if self.root.startswith("gs://"):
            return self._bucket.objects.get(f"{self.root.removeprefix('gs://my-bucket/')}/{path}")
        file = Path(self.root, path)
        return file.read_bytes() if file.is_file() else None

    @property
    def record(self) -> ConversionRecord:
        conversion_record = read_conversion(self.read("converted/tiny-0/xsft/conversion.json") or b"")
        assert conversion_record is not None
        return conversion_record

    def attempt(self, outcome: str) -> AttemptFacts | None:
        content = self.read(f"tiny-convert/xsft/attempt-2.{outcome}.json")
        return read_facts(content) if content else None


@pytest.fixture(params=["bucket", "folder"])
def container(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Container]:
    with serving(Bucket({})) as bucket:
        yield Container("gs://my-bucket/runs" if request.param == "bucket" else str(tmp_path / "runs"), bucket)


def test_complete_save_is_recorded_beside_the_result_and_the_run(container: Container) -> None:
    assert container.run(*WHOLE)[0] == 0
    assert (container.record.outcome, container.record.digest) == ("completed", "d" * 64)
    assert container.record.started_at <= (container.record.finished_at or "")
    attempt_facts = container.attempt("completed")
    assert attempt_facts is not None
    assert (attempt_facts.outcome, attempt_facts.at) == ("completed", container.record.finished_at)


def test_a_failure_is_recorded_with_its_reason(container: Container) -> None:
    assert container.run(*TORN, status=3)[0] == 3
    assert container.record.outcome == "failed"
    assert "exit status 3" in (container.record.reason or "")
    attempt_facts = container.attempt("failed")
    assert attempt_facts is not None
    assert attempt_facts.reason == container.record.reason
    assert container.attempt("completed") is None


def test_exit_status_0_with_a_torn_save_is_recorded_as_failed(container: Container) -> None:
    status, _ = container.run(*TORN)
    assert (status, container.record.outcome) == (1, "failed")


def test_error_after_a_complete_save_keeps_the_checkpoint(container: Container) -> None:
    status, output = container.run(*WHOLE, status=9)
    assert (status, container.record.outcome) == (0, "completed")
    assert "exit status 9" in output


def test_sigterm_reaches_the_converter_and_is_recorded(container: Container) -> None:
    with container.start("hang") as process:
        until(lambda: "hanging" in str(process.stdout.readline() if process.stdout else ""))
        process.terminate()
        assert process.wait(timeout=300) == 128 + 15
    assert (container.record.outcome, container.record.reason) == ("interrupted", "stopped by SIGTERM")
    assert container.attempt("failed") is None  # cancel or the cluster says why


def test_folder_claimed_by_another_process_is_refused(container: Container) -> None:
    container.run(*TORN, status=1)
    status, output = container.run(*WHOLE)
    assert (status, container.record.outcome) == (4, "failed")
    assert "another process is writing" in output


def test_pod_preempted_before_its_first_write_starts_again(container: Container) -> None:
    with container.start("hang") as process:
        until(lambda: "hanging" in str(process.stdout.readline() if process.stdout else ""))
        os.killpg(process.pid, signal.SIGKILL)  # as a container that is killed whole
        process.wait()
    assert container.record.outcome == "running"
    assert container.run(*WHOLE)[0] == 0
    assert container.record.outcome == "completed"


def test_only_the_first_host_of_a_slice_converts(container: Container) -> None:
    status, output = container.run(*WHOLE, env={"JOB_COMPLETION_INDEX": "7"})
    assert (status, container.read("converted/tiny-0/xsft/conversion.json")) == (0, None)
    assert "host 7 has nothing to do" in output
    assert container.run(*WHOLE, env={"JOB_COMPLETION_INDEX": "0"})[0] == 0


@pytest.mark.parametrize(
    ("answer", "outcome", "words"),
    [
        ({"problems": [], "compared": 7, "all": 7}, "completed", "7 of 7 tensors equal the source's"),
        ({"problems": ["3 tensors differ"]}, "failed", "the checkpoint is not its source: 3 tensors differ"),
        ({"error": "OSError: no network"}, "completed", "it was not compared with its source"),
    ],
    ids=["equal", "different", "not compared"],
)
def test_the_result_is_compared_with_its_source(
    answer: dict[str, Any], outcome: str, words: str, container: Container
) -> None:
    status, output = container.run(*WHOLE, compares=answer)
    record = read_conversion(container.read("converted/tiny-0/xsft/conversion.json") or b"")
    assert record is not None
    assert (record.outcome, status) == (outcome, int(outcome == "failed")), output
    assert words in f"{record.reason} {record.verified}"

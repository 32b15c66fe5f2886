"""Claim a folder, run a command and record how the work ended, from inside a pod."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ENTRY = Path(__file__).with_name("entry.py")
"""File that starts another program of those that were sent."""
REFUSED = 4
"""Exit status if another process began to write the folder."""


class WorkFailed(Exception):
    """The work did not complete, for this reason."""


class WorkStopped(Exception):
    """A signal of this name stopped the work."""


def claimed(place: BucketPlace | FolderPlace, path: str, record: dict[str, Any], *, result: str) -> bool:
    """Return whether this process may write: it is the first, or an earlier start of the same attempt (a preempted pod,
    a request whose answer was lost) wrote nothing of the result. `path`: of the record; `result`: how the paths of the
    result begin."""
    if place.create(path, json.dumps(record, indent=1)):
        return True
    try:
        there = json.loads(place.read(path) or b"")
    except ValueError:
        return False
    is_same = isinstance(there, dict) and {**there, "started_at": ""} == {**record, "started_at": ""}
    return is_same and not place.has_any(result)


def run(command: list[str]) -> tuple[int, str]:
    """Return the command's exit status, and the signal that stopped this process, if one did."""
    stopped_by: list[str] = []
    child = subprocess.Popen(command)

    def stop(number: int, _frame: object) -> None:
        stopped_by.append(signal.Signals(number).name)
        child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return child.wait(), "".join(stopped_by[:1])


def ask_program(asked: dict[str, Any], *, python: str = sys.executable) -> dict[str, Any]:
    """Return the answer of another program. `asked`: its `module`, and its question as `notes`. Raises WorkFailed,
    WorkStopped."""
    program = asked["module"]
    with tempfile.TemporaryDirectory() as scratch:
        question, answer = Path(scratch, "question.json"), Path(scratch, "answer.json")
        question.write_text(json.dumps(asked["notes"]), encoding="utf-8")
        # -I: no module of this folder shadows a library.
        ended = run([python, "-I", str(ENTRY), program, str(question), str(answer)])
        reply: dict[str, Any] = {}
        if answer.exists():
            reply = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in reply:
        raise WorkFailed(f"{program}: {reply['error']}")
    raise_unless_ended_well(ended, program)
    return reply


def raise_unless_ended_well(ended: tuple[int, str], what: str) -> None:
    status, stopped_by = ended
    if stopped_by:
        raise WorkStopped(stopped_by)
    if status:
        raise WorkFailed(f"{what} ended with {ended_with(status)}")


def record_end(
    place: BucketPlace | FolderPlace, notes: dict[str, Any], record: dict[str, Any], end: dict[str, Any]
) -> None:
    """Record the end beside the result and beside the run. An error while recording is only printed."""
    try:
        place.overwrite(notes["record_path"], json.dumps({**record, **end, "finished_at": now()}, indent=1))
    except Exception as failed:
        print_line(f"the end could not be recorded: {failed}")
        return
    # if it was interrupted, `xsft cancel` or the cluster stopped it, and records the reason
    if "attempt" in notes and end["outcome"] != "interrupted":
        record_attempt(place, notes, end)


def record_attempt(place: BucketPlace | FolderPlace, notes: dict[str, Any], end: dict[str, Any]) -> None:
    """Record the end of the run's attempt, once. An error while recording is only printed."""
    known = {key: value for key, value in end.items() if key in ("outcome", "reason")}
    facts = {**notes["attempt"], **known, "at": now()}
    try:
        place.create(f"{notes['attempt_stem']}.{end['outcome']}.json", json.dumps(facts, indent=1))
    except Exception as failed:
        print_line(f"the end could not be recorded: {failed}")


def ended_with(status: int) -> str:
    """Return how a process ended, for a message."""
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"


def status_of(status: int) -> int:
    """Return the exit status of a job whose command ended with `status` and without a result."""
    return status if status > 0 else 128 - status if status < 0 else 1


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def print_line(line: str) -> None:
    sys.stdout.write(f"xsft: {line}\n")
    sys.stdout.flush()


class BucketPlace:
    """Objects in Cloud Storage."""

    def __init__(self) -> None:
        from google.api_core import exceptions
        from google.cloud import storage

        self._missing, self._taken = exceptions.NotFound, exceptions.PreconditionFailed
        self._client = storage.Client(project=os.environ.get("GOOGLE_CLOUD_PROJECT") or "xsft")

    def _blob(self, path: str) -> Any:
        bucket, _, name = path.removeprefix("gs://").partition("/")
        return self._client.bucket(bucket).blob(name)

    def create(self, path: str, text: str) -> bool:
        """Write an object that does not exist yet; return whether it was written."""
        try:
            self._blob(path).upload_from_string(text, content_type="application/json", if_generation_match=0)
        except self._taken:
            return False
        return True

    def overwrite(self, path: str, text: str) -> None:
        self._blob(path).upload_from_string(text, content_type="application/json")

    def read(self, path: str) -> bytes | None:
        try:
            return bytes(self._blob(path).download_as_bytes())
        except self._missing:
            return None

    def has_any(self, folder: str) -> bool:
        bucket, _, name = folder.removeprefix("gs://").partition("/")
        return any(self._client.list_blobs(bucket, prefix=name, max_results=1))

    def upload(self, file: Path, path: str) -> int:
        """Copy a file to an object that does not exist yet, checksum included; return the object's bytes."""
        blob = self._blob(path)
        blob.upload_from_filename(str(file), if_generation_match=0, checksum="crc32c", timeout=600)
        return int(blob.size)


class FolderPlace:
    """Files of a mounted folder."""

    def create(self, path: str, text: str) -> bool:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(path, "x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            return False
        return True

    def overwrite(self, path: str, text: str) -> None:
        beside = Path(f"{path}.new")
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)

    def read(self, path: str) -> bytes | None:
        return Path(path).read_bytes() if Path(path).is_file() else None

    def has_any(self, folder: str) -> bool:
        """Return whether an entry beside `folder` has a name that begins with its name."""
        return any(Path(folder).parent.glob(f"{Path(folder).name}*"))

    def upload(self, file: Path, path: str) -> int:
        with open(path, "xb") as target, file.open("rb") as source:
            shutil.copyfileobj(source, target, 1 << 24)
        return Path(path).stat().st_size


def place_of(path: str) -> BucketPlace | FolderPlace:
    return BucketPlace() if path.startswith("gs://") else FolderPlace()

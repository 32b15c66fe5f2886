"""Run a conversion in its container: claim the folder, run the converter, record its end. No other module imports this
one: its text is the program of the image's Python (`python3 -c`), which has no xsft.

Arguments: a JSON document (`conversion.notes`), then the converter's command. MaxText itself needs
google-cloud-storage, so every image has it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

REFUSED = 4
"""Exit status if another process began to write the folder."""


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


def main(notes: dict[str, Any], command: list[str]) -> int:
    if (host := os.environ.get("JOB_COMPLETION_INDEX", "0")) != "0":
        say(f"host {host} has nothing to do: host 0 converts")
        return 0
    checkpoint, beside = notes["checkpoint"], notes["record_path"]
    place = BucketPlace() if beside.startswith("gs://") else FolderPlace()
    record = {**notes["record"], "started_at": now()}
    if not claimed(place, beside, record, step=checkpoint.rpartition("/")[0]):
        say(f"another process has begun to write {checkpoint}; convert again, which takes a new folder")
        return REFUSED
    status, stopped_by = run(command)
    whole = is_whole(place, checkpoint)
    end = ended(status=status, stopped_by=stopped_by, whole=whole)
    try:
        place.overwrite(beside, json.dumps({**record, **end, "finished_at": now()}, indent=1))
        if end["outcome"] != "interrupted":  # who stopped it knows why: cancel, or the cluster
            facts = {**notes["attempt"], **end, "at": now()}
            place.create(f"{notes['attempt_stem']}.{end['outcome']}.json", json.dumps(facts, indent=1))
    except Exception as failed:  # the result counts, not its record
        say(f"the end could not be recorded: {failed}")
    if whole and status:
        say(f"the checkpoint is saved whole; afterwards the converter ended with exit status {status}")
    if whole:
        return 0
    return status if status > 0 else 128 - status if status < 0 else 1


def claimed(place: BucketPlace | FolderPlace, path: str, record: dict[str, Any], *, step: str) -> bool:
    """Return whether this process may write the folder: it is the first, or an earlier start of the same attempt (a
    preempted pod, a request whose answer was lost) wrote no array."""
    if place.create(path, json.dumps(record, indent=1)):
        return True
    try:
        there = json.loads(place.read(path) or b"")
    except ValueError:
        return False
    is_same = isinstance(there, dict) and {**there, "started_at": ""} == {**record, "started_at": ""}
    return is_same and not place.has_any(step)


def run(command: list[str]) -> tuple[int, str]:
    """Return the converter's exit status, and the signal that stopped this process, if one did."""
    stopped_by: list[str] = []
    child = subprocess.Popen(command)

    def stop(number: int, _frame: object) -> None:
        stopped_by.append(signal.Signals(number).name)
        child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return child.wait(), "".join(stopped_by[:1])


def ended(*, status: int, stopped_by: str, whole: bool) -> dict[str, Any]:
    if whole:
        return {"outcome": "completed"}
    if stopped_by:
        return {"outcome": "interrupted", "reason": f"stopped by {stopped_by}"}
    what = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
    return {"outcome": "failed", "reason": f"the converter ended with {what}, and what it wrote is not whole"}


def is_whole(place: BucketPlace | FolderPlace, checkpoint: str) -> bool:
    """Return whether the save was committed, as `xsft.checkpoint.whole` tells it."""
    step = checkpoint.rpartition("/")[0]
    if place.read(f"{checkpoint}/_METADATA") is None:
        return False
    told = json.loads(place.read(f"{step}/_CHECKPOINT_METADATA") or "{}")
    is_open = "commit_timestamp_nsecs" in told and not told["commit_timestamp_nsecs"]
    return not is_open or place.read(f"{step}/commit_success.txt") is not None


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def say(line: str) -> None:
    sys.stdout.write(f"xsft: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), sys.argv[2:]))

"""Convert in a container: claim the folder, run the converter, compare its result with the source, record the end. Sent
to the image's Python, which has no xsft, with the other modules of `xsft.workers`.

Arguments: a JSON document with the `notes` (`launcher.cpujob`), then the converter's command.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from xsft.workers.work import (
    REFUSED,
    BucketPlace,
    FolderPlace,
    WorkFailed,
    WorkStopped,
    ask_program,
    claimed,
    ended_with,
    now,
    place_of,
    print_line,
    record_end,
    run,
    status_of,
)


def main(notes: dict[str, Any], command: list[str]) -> int:
    if (host := os.environ.get("JOB_COMPLETION_INDEX", "0")) != "0":
        print_line(f"host {host} has nothing to do: host 0 converts")
        return 0
    checkpoint, beside = notes["checkpoint"], notes["record_path"]
    place = place_of(beside)
    record = {**notes["record"], "started_at": now()}
    if not claimed(place, beside, record, result=checkpoint.rpartition("/")[0]):
        print_line(f"another process is writing {checkpoint}; convert again, into a new folder")
        return REFUSED
    status, stopped_by = run(command)
    whole = is_committed(place, checkpoint)
    end = outcome_of(status=status, stopped_by=stopped_by, whole=whole)
    if whole and not stopped_by:
        end |= compared_with_source(notes)
    record_end(place, notes, record, end)
    if whole and status:
        print_line(f"the checkpoint is complete; afterwards the converter ended with exit status {status}")
    if end["outcome"] == "failed" and whole:
        print_line(end["reason"])
        return 1
    return 0 if whole else status_of(status)


def compared_with_source(notes: dict[str, Any]) -> dict[str, Any]:
    """Return how the checkpoint compares with its Hugging Face weights, as fields of the record."""
    question = notes.get("comparison")
    if question is None:
        return {}
    print_line("comparing the checkpoint with its source")
    question["notes"]["compared"]["seed"] = int.from_bytes(os.urandom(4), "big")
    try:
        answer = ask_program(question)
    except WorkFailed as failed:
        return {"verified": f"it was not compared with its source: {failed}"}
    except WorkStopped as stopped:
        return {"outcome": "interrupted", "reason": f"stopped by {stopped}"}
    if answer["problems"]:
        return {"outcome": "failed", "reason": f"the checkpoint is not its source: {'; '.join(answer['problems'])}"}
    return {"verified": f"{answer['compared']} of {answer['all']} tensors equal the source's"}


def outcome_of(*, status: int, stopped_by: str, whole: bool) -> dict[str, Any]:
    if whole:
        return {"outcome": "completed"}
    if stopped_by:
        return {"outcome": "interrupted", "reason": f"stopped by {stopped_by}"}
    reason = f"the converter ended with {ended_with(status)}, and its result is incomplete"
    return {"outcome": "failed", "reason": reason}


def is_committed(place: BucketPlace | FolderPlace, checkpoint: str) -> bool:
    """Return whether the save was committed, as `xsft.weights.checkpoint_files` tells it."""
    step = checkpoint.rpartition("/")[0]
    if place.read(f"{checkpoint}/_METADATA") is None:
        return False
    told = json.loads(place.read(f"{step}/_CHECKPOINT_METADATA") or "{}")
    is_open = "commit_timestamp_nsecs" in told and not told["commit_timestamp_nsecs"]
    return not is_open or place.read(f"{step}/commit_success.txt") is not None


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])["notes"], sys.argv[2:]))

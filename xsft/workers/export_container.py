"""Export, in a pod or on this machine: write the model to the machine's own disk, add the source model's files, verify
it, and only then copy it to its destination, unless it is there. The record that makes it complete is written last.

Arguments: a JSON document with the `notes` (`launcher.pod_end`), then the exporter's command.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xsft.workers.export_judging import judged, logits_problems
from xsft.workers.work import (
    REFUSED,
    BucketPlace,
    FolderPlace,
    WorkFailed,
    WorkStopped,
    ask_program,
    claimed,
    now,
    place_of,
    print_line,
    raise_unless_ended_well,
    record_end,
    run,
)

COPIES = "xsft/copying.json"
"""File beside the record that is written before the first file of the model; no other process may begin after it."""
AT_ONCE = 8
"""Files that are copied at the same time."""
IN_EVERY_REPOSITORY = frozenset({".gitattributes", "README.md"})


def main(notes: dict[str, Any], command: list[str]) -> int:
    beside, directory = notes["record_path"], notes["directory"]
    place = place_of(beside)
    record = {**notes["record"], "started_at": now()}
    if not claimed(place, beside, record, result=f"{directory}/{COPIES}"):
        print_line(f"another process is writing {directory}; export again, into a new folder")
        return REFUSED
    end: dict[str, Any] = {"verification": None}
    try:
        end |= exported(notes, command, place)
    except WorkStopped as stopped:
        end |= {"outcome": "interrupted", "reason": f"stopped by {stopped}"}
    except WorkFailed as failed:
        end |= {"outcome": "failed", "reason": str(failed)}
    except Exception as failed:
        end |= {"outcome": "failed", "reason": f"{type(failed).__name__}: {failed}"}
    record_end(place, notes, record, end)
    print_line(end.get("reason") or f"{directory} is complete: {end['verification']['compared']} tensors were compared")
    return 0 if end["outcome"] == "completed" else 1


def exported(notes: dict[str, Any], command: list[str], place: BucketPlace | FolderPlace) -> dict[str, Any]:
    """Return the end of a complete export. Raises WorkFailed, WorkStopped."""
    folder = Path(notes["folder"])
    verification = written(folder, notes, command)
    sizes = sizes_in(folder)
    commit = None
    if notes["hub"] or notes["folder"] != notes["directory"]:
        with _stoppable():
            commit = deliver(folder, sizes, notes, place)
    return {"outcome": "completed", "files": sizes, "commit": commit, "verification": verification}


def written(folder: Path, notes: dict[str, Any], command: list[str]) -> dict[str, Any]:
    """Write the model into the folder, and return its verification. Raises WorkFailed, WorkStopped."""
    raise_unless_ended_well(run(command), "MaxText's exporter")
    python = command[0]
    written_files = ask_program(notes["model_files"], python=python)
    print_line("comparing the tensors with the checkpoint")
    job = {**notes["comparison"]["notes"], "seed": int.from_bytes(os.urandom(4), "big")}
    answer = ask_program({**notes["comparison"], "notes": job}, python=python)
    found = judged(sizes_in(folder), reader(folder), answer=answer, of=answer["folders"][0], dtype=job["dtype"])
    if found["problems"]:
        raise WorkFailed("; ".join(found["problems"]))
    return {**found, "config": written_files["config"], **logits_verdict(notes, python=python)}


def logits_verdict(notes: dict[str, Any], *, python: str) -> dict[str, Any]:
    """Return how the logits compare, or why they were not compared, as fields of the verification. Raises WorkFailed if
    they differ."""
    if "logits" not in notes:
        return {"logits_skipped": notes.get("logits_skipped", "")}
    print_line("comparing logits with the engine's")
    logits = notes["logits"]
    ask_program(logits["computed"], python=python)
    answer = ask_program(logits["compared"], python=logits["python"])
    verdict = {**answer["folders"][0], "engine": logits["engine"]}
    problems = list(logits_problems(verdict, bound=logits["bound"]))
    if problems:
        raise WorkFailed("; ".join(problems))
    return {"logits": verdict}


def sizes_in(folder: Path) -> dict[str, int]:
    """Return the bytes of each file of the model, without xsft's own."""
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}


def reader(folder: Path) -> Callable[[str, int, int], bytes]:
    def read(name: str, start: int, count: int) -> bytes:
        with (folder / name).open("rb") as file:
            file.seek(start)
            return file.read(count)

    return read


def deliver(folder: Path, sizes: dict[str, int], notes: dict[str, Any], place: BucketPlace | FolderPlace) -> str | None:
    """Copy the files to their destination and check their sizes there; return the hub's commit, or None.

    Raises WorkFailed, and as the client does.
    """
    where = notes["hub"] or notes["directory"]
    print_line(f"copying {len(sizes)} files, {sum(sizes.values()):,} bytes, to {where}")
    if not place.create(f"{notes['directory']}/{COPIES}", json.dumps({"at": now()})):
        raise WorkFailed(f"another process is copying to {where}")
    if notes["hub"]:
        commit, there = to_hub(folder, tuple(sizes), repo=notes["hub"], title=notes["title"])
    else:
        commit, there = None, to_place(folder, tuple(sizes), place, notes["directory"])
    if wrong := [name for name, size in sizes.items() if there.get(name) != size]:
        raise WorkFailed(f"{where} lacks files, or has them with different sizes: {', '.join(wrong[:5])}")
    return commit


def to_place(folder: Path, names: tuple[str, ...], place: BucketPlace | FolderPlace, directory: str) -> dict[str, int]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            sizes = list(pool.map(lambda name: place.upload(folder / name, f"{directory}/{name}"), names))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return dict(zip(names, sizes, strict=True))


def to_hub(folder: Path, names: tuple[str, ...], *, repo: str, title: str) -> tuple[str, dict[str, int]]:
    """Upload the files in one commit to an empty repository, which is made if it is missing, and private then. Returns
    the commit, and the sizes of the files there.

    `title`: of the commit. A commit with this title is from an earlier start, and is only read. The token is that of
    HF_TOKEN_PATH. Raises WorkFailed for a repository with other content: nothing is overwritten.
    """
    from huggingface_hub import CommitOperationAdd, HfApi  # type: ignore[import-not-found]

    api = HfApi()
    api.create_repo(repo, private=True, exist_ok=True)
    if api.list_repo_commits(repo)[0].title != title:
        before = api.repo_info(repo)
        if held := {one.rfilename for one in before.siblings or ()} - IN_EVERY_REPOSITORY:
            raise WorkFailed(
                f"{repo} already has files ({', '.join(sorted(held)[:3])}), and nothing was overwritten; use another "
                "repository"
            )
        files = [CommitOperationAdd(path_in_repo=name, path_or_fileobj=folder / name) for name in names]
        api.create_commit(repo, files, commit_message=title, parent_commit=before.sha)
    after = api.repo_info(repo, files_metadata=True)
    return str(after.sha), {one.rfilename: int(one.size or 0) for one in after.siblings or ()}


@contextmanager
def _stoppable() -> Iterator[None]:
    """Raise WorkStopped inside if a signal asks this process to end."""

    def stop(number: int, _frame: object) -> None:
        raise WorkStopped(signal.Signals(number).name)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])["notes"], sys.argv[2:]))

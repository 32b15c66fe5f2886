"""Runs the worker that reads and writes rows, in MaxText's environment, and reports its progress."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from xsft.base.errors import EnvironmentMissing, SpecError, Unreachable, XsftError
from xsft.base.problems import error
from xsft.data.passes import FaultyRow
from xsft.data.preparation import Shard
from xsft.data.refusals import fix_of
from xsft.environments.ask import Interpreter, ProgramFailed, ask
from xsft.launch.local_machine import Machine, program_environment
from xsft.spec.keypath import printable

WORKER = "xsft.workers.prepare_rows"
UNANSWERED = ("ConnectionError", "ConnectError", "ReadError", "Timeout", "LocalEntryNotFoundError")
"""Errors of datasets, huggingface_hub and httpx if the hub did not answer."""
NO_ACCESS = ("GatedRepoError", "DatasetNotFoundError", "RepositoryNotFoundError")
"""Their errors for a data set that does not exist, or that this login may not read; the hub answers both alike."""
DISK_FULL = ("[Errno 28]", "[Errno 122]")

LOGIN = "Correct data.hf_path; for a gated data set accept its terms on the hub and run `hf auth login`."


class Follower(Struct, kw_only=True):
    """A reader of the worker's messages, with what the worker has reported so far."""

    say: Callable[[str], None]
    verb: str
    total: int | None
    on_shard: Callable[[Shard], None] = lambda _shard: None
    shards: list[Shard] = []

    def line(self, text: str) -> None:
        """Read a line of the worker; a line that is not its own (a library's warning) is skipped."""
        with suppress(ValueError):
            match json.loads(text):
                case {"rows": int(rows), "seconds": float(seconds), "total": int(total)}:
                    self.say(progress_line(self.verb, rows, total=total, seconds=seconds))
                case {"rows": int(rows), "seconds": float(seconds)}:
                    self.say(progress_line(self.verb, rows, total=self.total, seconds=seconds))
                case {"fetched": int(fetched), "seconds": float(seconds)}:
                    self.say(f"fetched {fetched / 1e6:,.1f} MB, {fetched / 1e6 / max(seconds, 0.001):,.1f} MB/s")
                case {"shard": found}:
                    shard = msgspec.convert(found, Shard)
                    self.on_shard(shard)
                    self.shards.append(shard)
                case _:
                    pass


def progress_line(verb: str, rows: int, *, total: int | None, seconds: float) -> str:
    """Return the rate and, if the total is known, the time left."""
    rate = rows / max(seconds, 0.001)
    if total is None:
        return f"{verb} {rows:,} rows, {rate:,.0f}/s"
    return f"{verb} {rows:,} of {total:,} rows, {rate:,.0f}/s, {max(total - rows, 0) / max(rate, 0.001):.0f} s left"


def work(
    job: Mapping[str, Any], *, machine: Machine, scratch: Path, follower: Follower, online: bool
) -> Mapping[str, Any]:
    """Return the worker's answer. Raises SpecError if the source cannot be read, Unreachable if the hub does not
    answer, EnvironmentMissing if the disk is full or the worker did not run.
    """
    environment = program_environment(machine, scratch, online=online)
    interpreter = Interpreter(python=machine.python, env=environment, cwd=scratch)
    try:
        answer: Mapping[str, Any] = ask(interpreter, WORKER, job, follower.line)
    except ProgramFailed as failed:
        if failed.error is not None:
            raise failure(printable(failed.error)) from failed
        message = f"The worker in MaxText's environment ended with status {failed.status}: {failed.printed}"
        fix = "Run the command again; `xsft setup maxtext` builds the environment."
        raise EnvironmentMissing(message, fix=fix) from failed
    if "missing" in answer:
        fault = FaultyRow(row=0, id="data-columns", fault=printable(answer["missing"]))
        raise SpecError((error(fault.id, "data.columns", f"The data {fault.fault}.", fix_of(fault)),))
    return answer


def failure(words: str) -> XsftError:
    """Return the error for the worker's message."""
    if any(word in words for word in DISK_FULL):
        return EnvironmentMissing(
            f"The disk is full: {words}", fix="Free some space, or prepare elsewhere with --to.", id="disk-full"
        )
    if any(word in words for word in UNANSWERED):
        return Unreachable(f"The data set could not be fetched: {words}", fix="Check the network, and try again.")
    fix = LOGIN if any(word in words for word in NO_ACCESS) else "Correct the data section, or the file."
    return SpecError((error("data-unreadable", "data", f"The data cannot be read: {words}", fix),))

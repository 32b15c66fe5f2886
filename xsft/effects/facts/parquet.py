"""Reads the first rows of parquet files and array records on this machine, with MaxText's environment if that is
built.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from xsft.effects.environments import environments
from xsft.effects.machine import process
from xsft.effects.machine.files import write_atomic
from xsft.effects.machine.paths import own_cache
from xsft.effects.machine.process import own_environment
from xsft.errors import XsftError
from xsft.facts import DataFacts, KeyRule, SampledRow
from xsft.problems import Problem, error, note

WORKER = Path(__file__).with_name("parquet_worker.py")
ROWS = 200
"""Rows read of each file."""
FILES = 8
"""Maximum number of files read; the others are not counted either."""
TIMEOUT_S = 10.0


def read_parquet(files: Sequence[Path], *, of: str, where: str) -> DataFacts:
    """Return the facts of the files. Files that have not changed are not read again."""
    maxtext = environments.find("maxtext")
    if maxtext is None:
        return DataFacts(problem=_not_read(where, f"MaxText's environment, which reads {of}, is not built."))
    try:
        found = _answers(str(maxtext.python), files[:FILES], of=of)
    except (XsftError, OSError, ValueError) as failed:
        return DataFacts(problem=_not_read(where, f"the rows could not be read: {failed}"))
    large = next(
        (_too_large(file, one, where) for file, one in zip(files, found, strict=False) if "group" in one), None
    )
    broken = next((_broken(file, one, where) for file, one in zip(files, found, strict=False) if "error" in one), None)
    rows = tuple(_sampled(file, one, first=file == files[0]) for file, one in zip(files, found, strict=False))
    whole = len(files) <= FILES and broken is None
    return DataFacts(
        rows=tuple(row for of_file in rows for row in of_file),
        counted=sum(one["counted"] for one in found) if whole else None,
        digest=_digest(files),
        large=tuple(found[0].get("large", ())) if found else (),
        problem=broken or large,
    )


def _answers(python: str, files: Sequence[Path], *, of: str) -> list[dict[str, Any]]:
    kept = own_cache() / f"{of}-rows" / f"{_digest(files)}.json"
    try:
        return msgspec.json.decode(kept.read_bytes(), type=list[dict[str, Any]])
    except (OSError, msgspec.MsgspecError):
        pass
    # -I: neither the user's site nor the checkout can shadow pyarrow.
    argv = (python, "-I", str(WORKER), of, str(ROWS), *(str(file.absolute()) for file in files))
    done = process.run(argv, env=own_environment(), cwd=Path("/"), timeout_s=TIMEOUT_S)
    found = [json.loads(line) for line in done.stdout.splitlines()]  # NaN, too, which msgspec refuses
    if len(found) != len(files):
        raise XsftError(f"its worker did not answer: {done.stderr.strip()[-200:]}")
    kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomic(kept, msgspec.json.encode(found), durable=False)
    return found


def _digest(files: Sequence[Path]) -> str:
    stats = [(str(file.absolute()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(repr((ROWS, stats)).encode()).hexdigest()


def _sampled(file: Path, found: dict[str, Any], *, first: bool) -> tuple[SampledRow, ...]:
    keys: KeyRule = "told" if first else "cast"
    rows = enumerate(found.get("rows", ()))
    return tuple(SampledRow(at=f"row {at} of {file.name}", row=row, keys=keys) for at, row in rows)


def _broken(file: Path, found: dict[str, Any], where: str) -> Problem:
    message = f"{file} cannot be read: {found['error'][:300]}"
    return error("data-unreadable", where, message, "Write it again: `xsft data prepare FILE` makes parquet files.")


def _too_large(file: Path, found: dict[str, Any], where: str) -> Problem:
    message = f"The rows were not checked: the first row group of {file} has {found['group'] / 1e6:,.0f} MB."
    fix = "`xsft data prepare FILE` writes smaller ones; `xsft data inspect FILE` reads any."
    return note("data-not-read", where, message, fix)


def _not_read(where: str, why: str) -> Problem:
    fix = "Build it: `xsft setup maxtext`; or run `xsft data inspect FILE`."
    return note("data-not-read", where, f"The rows of the files were not checked: {why}", fix)

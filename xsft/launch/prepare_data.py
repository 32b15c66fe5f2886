"""Builds a prepared data set, once: reads the data in MaxText's environment, writes shards, and marks it complete last.

Each try writes into its own folder, and `prepared.json` is created only when all of its shards exist. So a killed try
never looks complete, and nothing is deleted or overwritten. A digest of the files read decides whether it is there.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import EnvironmentMissing, Refused, SpecError, Unreachable, UsageError, XsftError, refuse_errors
from xsft.base.problems import Problem, error
from xsft.catalog.data import located
from xsft.data.passes import FaultyRow
from xsft.data.preparation import (
    PREPARED,
    Preparation,
    PreparedDataset,
    RowSource,
    Shard,
    SplitCount,
    SplitName,
    address,
    preparation_problems,
    shard_count,
    shard_problems,
)
from xsft.data.refusals import fix_of
from xsft.environments.ask import Interpreter, ProgramFailed, ask
from xsft.launch.local_machine import Machine, program_environment
from xsft.machine.filelock import exclusive
from xsft.machine.objects import GcsObjects, Objects, objects_for
from xsft.machine.paths import random_hex, scratch_folder
from xsft.machine.regular import ByteProgress, pieces_of
from xsft.machine.writable import check_writable
from xsft.spec.keypath import printable
from xsft.spec.paths import FILE_FORMATS

MAX_MANIFEST = 64 * 2**20
"""100,000 shards take 20 MB."""
MARGIN = 1.1
"""Disk space needed, relative to the rows' size in memory: parquet files are smaller, but a small file has its
footer.
"""
WORKER = "xsft.workers.prepare_rows"
UNANSWERED = ("ConnectionError", "ConnectError", "ReadError", "Timeout", "LocalEntryNotFoundError")
"""Errors of datasets, huggingface_hub and httpx if the hub did not answer."""
NO_ACCESS = ("GatedRepoError", "DatasetNotFoundError", "RepositoryNotFoundError")
"""Their errors for a data set that does not exist, or that this login may not read; the hub answers both alike."""
DISK_FULL = ("[Errno 28]", "[Errno 122]")

LOGIN = "Correct data.hf_path; for a gated data set accept its terms on the hub and run `hf auth login`."


class Workshop(Struct, frozen=True, kw_only=True):
    """The parts of this machine that preparing uses; tests pass their own."""

    machine: Machine
    say: Callable[[str], None] = lambda _line: None
    free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free


class PreparedFolder(Struct, frozen=True, kw_only=True):
    """A complete data set and its folder."""

    to: str
    """The folder of `prepared.json`."""
    prepared: PreparedDataset
    found: bool
    """Whether it existed already."""
    problems: tuple[Problem, ...] = ()
    """Warnings: it can be trained on."""


def prepare(preparation: Preparation, *, output: str | None, to: str | None, workshop: Workshop) -> PreparedFolder:
    """Return the prepared data set, built now or found. `to`: its folder; None: `<output>/data/<name>-<12 hex>`.

    Raises SpecError if rows cannot be read or trained on, EnvironmentMissing if the disk is full, Refused if `to` holds
    another data set, Unreachable if a bucket or the hub does not answer.
    """
    with scratch_folder("prepare") as scratch:
        contents = _contents(preparation, scratch, workshop)
        name = address(preparation, tuple(digest(content, say=workshop.say) for content in contents))
        if not to and output is None:
            message = "The workload has no output to put the data set under."
            raise UsageError(message, fix="Give a folder with --to.")
        root = to or f"{str(output).rstrip('/')}/data/{name}"
        root = root.rstrip("/") if root.startswith("gs://") else str(Path(root).expanduser().absolute())
        objects = objects_for(root, env=workshop.machine.env)
        making = _DatasetBuild(
            wanted=preparation,
            contents=contents,
            name=name,
            root=root,
            objects=objects,
            scratch=scratch,
            workshop=workshop,
        )
        if existing := making.found():
            return _with_problems(existing, preparation)
        lock = workshop.machine.cache / "prepare" / f"{hashlib.sha256(root.encode()).hexdigest()[:16]}.lock"
        with exclusive(lock, waiting=lambda: workshop.say("another xsft prepares this data set; waiting for it")):
            return _with_problems(making.found() or making.make(), preparation)


def _with_problems(folder: PreparedFolder, preparation: Preparation) -> PreparedFolder:
    return replace(folder, problems=tuple(shard_problems(folder.prepared, preparation)))


def _contents(preparation: Preparation, scratch: Path, workshop: Workshop) -> tuple[SourceContent, ...]:
    """Return the sources with the commit of each data set of the hub, so that all rows are read at one commit."""
    contents = tuple(located_source(source) for source in preparation.sources)
    paths = sorted({source.path for source in preparation.sources if source.on_hub})
    if not paths:
        return contents
    follower = Follower(say=workshop.say, verb="asked", total=None)
    job = {"action": "resolve", "paths": paths}
    answer = work(job, machine=workshop.machine, scratch=scratch, follower=follower, online=True)
    commits = dict(zip(paths, answer["commits"], strict=True))
    return tuple(
        replace(content, load={**content.load, "revision": commits[source.path]}) if source.on_hub else content
        for content, source in zip(contents, preparation.sources, strict=True)
    )


class _DatasetBuild(Struct, frozen=True, kw_only=True):
    """The inputs for building one data set."""

    wanted: Preparation
    contents: Sequence[SourceContent]
    name: str
    root: str
    objects: Objects
    scratch: Path
    workshop: Workshop

    def found(self) -> PreparedFolder | None:
        """Return the data set if it is already complete. Raises Refused if something else is in its place."""
        content = self.objects.read(f"{self.root}/{PREPARED}", limit=MAX_MANIFEST)
        if content is None:
            return None
        try:
            prepared = msgspec.json.decode(content, type=PreparedDataset)
        except msgspec.DecodeError:
            raise Refused(f"{self.root}/{PREPARED} is not xsft's.", fix="Give another folder with --to.") from None
        if prepared.address != self.name:
            message = f"{self.root} holds another data set, {prepared.address}; this one is {self.name}."
            raise Refused(message, fix="Give another folder with --to, or omit --to.")
        missing = {shard.name for shard in prepared.shards} - set(self.objects.names(f"{self.root}/{prepared.attempt}"))
        if missing:
            message = f"{len(missing)} of {len(prepared.shards)} shards of {self.root} are gone, e.g. {min(missing)}."
            raise Refused(message, fix="Restore them, or prepare to another folder with --to.", id="prepared-torn")
        return PreparedFolder(to=self.root, prepared=prepared, found=True)

    def make(self) -> PreparedFolder:
        """Run one try, from the first row to `prepared.json`."""
        refuse_errors(check_writable(self.root, env=self.workshop.machine.env))
        before = stamps(self.contents)
        follower = Follower(say=self.workshop.say, verb="checked", total=None)
        counted = msgspec.convert(self._run_worker({"action": "count"}, follower), dict[SplitName, SplitCount])
        if refused := preparation_problems(counted, self.wanted):
            raise SpecError(refused)
        attempt = random_hex(4)
        shards = self._write_shards(counted, attempt=attempt)
        if stamps(self.contents) != before:
            message = "The files of the source changed while they were read."
            raise SpecError((error("data-changed", "data", message, "Run the command again."),))
        prepared = PreparedDataset(
            address=self.name,
            attempt=attempt,
            format=self.wanted.format,
            columns=self.wanted.sources[0].names,
            eval_columns=self.wanted.sources[-1].names,
            rows={name: split.rows for name, split in counted.items()},
            refused=sum(split.refused for split in counted.values()),
            shards=shards,
        )
        created = self.objects.create(f"{self.root}/{PREPARED}", msgspec.json.encode(prepared))
        first = None if created else self.found()  # another machine was first, or the answer to this try was lost
        if first and first.prepared.attempt != attempt:
            return first
        return PreparedFolder(to=self.root, prepared=prepared, found=False)

    def _write_shards(self, counted: Mapping[SplitName, SplitCount], *, attempt: str) -> tuple[Shard, ...]:
        objects = self.objects
        folder = Path(self.root, attempt)
        if isinstance(objects, GcsObjects):
            folder = self.scratch / "shards"
        try:
            folder.mkdir(parents=True)
        except OSError as failed:
            message = f"cannot make the folder {folder}: {failed.strerror}"
            raise EnvironmentMissing(message, fix=f"Check that you may write in {folder.parent}.") from None
        self._refuse_small_disk(folder, sum(split.bytes for split in counted.values()))

        def on_shard(shard: Shard) -> None:
            """Upload a whole shard to a bucket, and free its disk space for the next ones."""
            if isinstance(objects, GcsObjects):
                objects.create_from(f"{self.root}/{attempt}/{shard.name}", folder / shard.name)
                (folder / shard.name).unlink()

        splits: dict[SplitName, Mapping[str, Any]] = {}
        for name, split in counted.items():
            shards = shard_count(
                rows=split.rows, size=split.bytes, hosts=self.wanted.hosts, requested=self.wanted.shards
            )
            splits[name] = {"rows": split.rows, "schema": split.schema, "shards": shards}
        total = sum(split.rows + split.refused for split in counted.values())
        follower = Follower(say=self.workshop.say, verb="wrote", total=total, on_shard=on_shard)
        self._run_worker(
            {"action": "write", "folder": str(folder), "format": self.wanted.format, "out": splits}, follower
        )
        return tuple(follower.shards)

    def _run_worker(self, job: Mapping[str, Any], follower: Follower) -> Mapping[str, Any]:
        sources = [
            {"load": content.load, "columns": source.columns, "splits": source.splits, "share": self.wanted.eval_share}
            for content, source in zip(self.contents, self.wanted.sources, strict=True)
        ]
        question = {**job, "sources": sources, "rule": self.wanted.rule, "sharegpt": self.wanted.sharegpt}
        online = any(source.on_hub for source in self.wanted.sources)
        machine = self.workshop.machine
        return work(question, machine=machine, scratch=self.scratch, follower=follower, online=online)

    def _refuse_small_disk(self, folder: Path, size: int) -> None:
        needed, free = int(size * MARGIN), self.workshop.free(folder)
        if free < needed:
            message = f"The rows take up to {needed / 1e9:.2f} GB, and {folder} has {free / 1e9:.2f} GB free."
            fix = f"Free some space (df -h {folder}), or prepare elsewhere with --to."
            raise EnvironmentMissing(message, fix=fix, id="disk-full")


class SourceContent(Struct, frozen=True, kw_only=True):
    """One source, as it is on this machine."""

    load: dict[str, Any]
    """Arguments of datasets.load_dataset, except `streaming`."""
    files: tuple[Path, ...] = ()
    """Every file that determines the content; empty for a data set of the hub."""

    @property
    def commit(self) -> str | None:
        """Return the commit of a data set of the hub, once it is known."""
        return self.load.get("revision")


def located_source(source: RowSource) -> SourceContent:
    """Return the source's files. Raises SpecError if they are not on this machine."""
    common = {"split": source.split, "name": source.name, "data_dir": source.data_dir}
    if source.on_hub:
        return SourceContent(load={"path": source.path, **common, "data_files": source.files})
    if source.path in FILE_FORMATS:
        matching = _matching_files(source.files or "")
        load = {"path": source.path, **common, "data_files": [str(file) for file in matching]}
        return SourceContent(load=load, files=matching)
    folder = Path(located(source.path)).expanduser().absolute()
    if not folder.is_dir():
        raise _unreadable(
            "data.hf_path", f"{folder} is not a folder", "Set data.hf_path to the folder of the data set."
        )
    load = {"path": str(folder), **common, "data_files": source.files}
    files: list[Path] = []
    for root, folders, names in os.walk(folder):  # without hidden ones, as `datasets` does
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(root, name) for name in sorted(names) if not name.startswith(".")]
    return SourceContent(load=load, files=tuple(files))


def digest(content: SourceContent, *, say: Callable[[str], None]) -> str:
    """Return the digest: of the names and bytes of a folder's files, of the bytes of named files, or the commit of a
    data set of the hub. Raises SpecError if a file cannot be read.
    """
    if content.commit:
        return content.commit
    content_digest = hashlib.sha256()
    folder = Path(content.load["path"])
    progress = ByteProgress(say, total=sum(file.stat().st_size for file in content.files), verb="digested")
    for file in content.files:
        name = str(file.relative_to(folder)) if folder.is_absolute() else ""
        content_digest.update(f"{name}\0{_digest_of(file, progress)}\n".encode("utf-8", "surrogateescape"))
    return content_digest.hexdigest()


def stamps(contents: Sequence[SourceContent]) -> tuple[tuple[int, int], ...]:
    """Return values that change when a file is written."""
    stats = (file.stat() for content in contents for file in content.files)
    return tuple((stat.st_size, stat.st_mtime_ns) for stat in stats)


def _matching_files(pattern: str) -> tuple[Path, ...]:
    path = located(pattern)
    if not path:
        fix = "Set data.hf_train_files, or --set data.hf_train_files=FILE."
        raise _unreadable("data.hf_train_files", "No files are named", fix)
    if "://" in path:
        fix = "Copy them here (`gcloud storage cp`), and name the copy: --set data.hf_train_files=FILE."
        raise _unreadable("data.hf_train_files", f"{path} is not on this machine", fix)
    files = tuple(Path(file).absolute() for file in sorted(glob.glob(os.path.expanduser(path), recursive=True)))
    if not files:
        message = f"No file matches {path}" if glob.has_magic(path) else f"{path} does not exist"
        raise _unreadable(
            "data.hf_train_files", message, "Correct the path; a relative one starts from the workload's folder."
        )
    return files


def _digest_of(file: Path, progress: ByteProgress) -> str:
    content = hashlib.sha256()
    try:
        for piece in pieces_of(file, progress):
            content.update(piece)
        return content.hexdigest()
    except OSError as failed:
        message = f"{file} cannot be read: {failed.strerror}"
        raise _unreadable("data.hf_train_files", message, "Check its permissions (ls -l).") from None


def _unreadable(where: str, message: str, fix: str) -> SpecError:
    return SpecError((error("data-unreadable", where, f"{message}.", fix),))


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

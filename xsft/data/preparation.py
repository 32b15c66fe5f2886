"""Plan what `xsft data prepare` writes: rows, columns, splits, shards and their folder. Pure.

A prepared data set is at `<to>/<attempt>/train-00000-of-00032.parquet`. `<to>/prepared.json` is written last and has
the complete attempt. The folder's name has a digest of all inputs, so that equal inputs are prepared once.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from xsft.base.errors import SpecError, UsageError
from xsft.base.problems import Problem, error, warning
from xsft.catalog.datasets import COLUMN_SETS, columns_ok
from xsft.spec.paths import FILE_FORMATS, is_local
from xsft.spec.resolve import Run

ShardFormat = Literal["parquet", "arrayrecord"]
SplitName = Literal["train", "eval"]
MessageRule = Literal["lists", "texts", "none"]
"""Content of a column: lists of messages, texts, or unknown because the user's own function reads it."""

WAY = 1
"""Version of the method; increased when equal inputs give other files than before."""
SHARDS_PER_HOST = 8
"""The streaming shuffle mixes 1,000 rows of a shard: with fewer files a resumption reads more rows twice.
source: datasets@5.2.0 iterable_dataset.py shuffle(buffer_size=1000); tests/contract/test_rows_read_twice.py.
"""
LARGEST_SHARD = 256 * 2**20
"""Largest size of a shard's source in bytes; after an interrupted upload as much is repeated."""
PREPARED = "prepared.json"


class PrepareOptions(Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    columns: tuple[str, ...] = ()
    """Columns of the source; empty for the workload's."""
    renames: Mapping[str, str] = {}
    """Column of the source -> the name for MaxText."""
    eval_share: float | None = None
    shards: int | None = None
    format: ShardFormat = "parquet"
    sharegpt: bool = False
    skip_bad: bool = False
    to: str | None = None


class RowSource(Struct, frozen=True, kw_only=True):
    """Rows from one place."""

    path: str
    """A loader of files (`json`), a local folder, or a Hugging Face data set."""
    split: str
    name: str | None = None
    data_dir: str | None = None
    files: str | None = None
    """A file or pattern."""
    columns: Mapping[str, str]
    """Column of the source -> prepared column; the texts of several columns with one name are joined."""
    splits: tuple[SplitName, ...]
    """The splits that its rows go to."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the prepared columns."""
        return tuple(dict.fromkeys(self.columns.values()))

    @property
    def on_hub(self) -> bool:
        return self.path not in FILE_FORMATS and not is_local(self.path)


class Preparation(Struct, frozen=True, kw_only=True):
    """The decisions that are made before a row is read."""

    name: str
    sources: tuple[RowSource, ...]
    rule: MessageRule
    hosts: int
    """Number of processes that read the data."""
    format: ShardFormat
    shards: int | None
    eval_share: float | None
    sharegpt: bool
    skip_bad: bool


class RowFault(Struct, frozen=True, kw_only=True):
    row: int
    """Number of the row in the source, from 0."""
    fault: str


class SplitCount(Struct, frozen=True, kw_only=True):
    """Counts of one split of the source."""

    rows: int
    """Rows that can be trained on."""
    bytes: int
    """Size in memory, in bytes."""
    refused: int
    faults: tuple[RowFault, ...]
    """Faults of the first refused rows."""
    schema: str
    """Types of the columns, serialised by Arrow."""


class Shard(Struct, frozen=True, kw_only=True):
    """One prepared file."""

    split: SplitName
    name: str
    rows: int
    bytes: int
    sha256: str


class PreparedDataset(Struct, frozen=True, kw_only=True):
    """The content of `prepared.json`, for a complete data set."""

    address: str
    """Address of the inputs."""
    attempt: str
    """Folder of the shards, relative to that of this file."""
    format: ShardFormat
    columns: tuple[str, ...]
    eval_columns: tuple[str, ...] = ()
    rows: Mapping[SplitName, int]
    refused: int
    """Rows of the source that --skip-bad left out."""
    shards: tuple[Shard, ...]
    schema: str = "xsft.prepared/1"


def preparation(run: Run, options: PrepareOptions) -> Preparation:
    """Plan the preparation. Raises UsageError and SpecError if the workload and the options conflict."""
    data = run.spec.data
    if options.eval_share is not None and (data.hf_eval_files or data.hf_eval_split):
        message = "--eval-share takes rows of the training split, and the workload names an evaluation split."
        raise UsageError(message, fix="Leave --eval-share out, or hf_eval_files and hf_eval_split.")
    if data.hf_path == "arrayrecord":
        message = "Array records are already prepared, and cannot be prepared again."
        raise SpecError(
            (error("data-unreadable", "data.hf_path", message, "Give the files from which they were made."),)
        )
    sources = _sources(run, options)
    refused = [problem for source in sources for problem in _column_problems(source, options.format)]
    if refused:
        raise SpecError(tuple(refused))
    rule: MessageRule = "none" if data.formatting_func else "lists"
    if data.pipeline == "grain" or options.format == "arrayrecord":
        rule = "texts"
    return Preparation(
        name=_folder_word(data.hf_path, data.hf_train_files),
        sources=sources,
        rule=rule,
        hosts=run.slice.hosts * run.num_slices if run.spec.on_cluster and run.slice else 1,
        format=options.format,
        shards=options.shards,
        eval_share=options.eval_share,
        sharegpt=options.sharegpt,
        skip_bad=options.skip_bad,
    )


def _sources(run: Run, options: PrepareOptions) -> tuple[RowSource, ...]:
    data = run.spec.data
    train = RowSource(
        path=run.located(data.hf_path),
        name=data.hf_name,
        data_dir=data.hf_data_dir,
        split=data.train_split,
        files=run.files_of("train"),
        columns=column_names(options.columns or data.columns, options.renames),
        splits=("train", "eval") if options.eval_share is not None else ("train",),
    )
    if data.hf_eval_files is None and data.hf_eval_split is None:
        return (train,)
    # For files MaxText uses the split `train` by default
    split = "train" if data.hf_eval_files else data.hf_eval_split
    evaluated = replace(
        train,
        split=split,
        files=run.files_of("eval"),
        columns=column_names(options.columns or data.eval_columns or data.columns, options.renames),
        splits=("eval",),
    )
    return train, evaluated


def column_names(columns: Sequence[str], renames: Mapping[str, str]) -> dict[str, str]:
    """Return source column -> prepared column. A workload may use the names before or after renaming."""
    named: dict[str, str] = {}
    for column in columns:
        sources = [old for old, new in renames.items() if new == column]
        named |= {source: renames.get(source, source) for source in sources or (column,)}
    return named


def _column_problems(source: RowSource, format: ShardFormat) -> list[Problem]:
    names = source.names
    if "messages" in names and len(source.columns) > 1:
        message = f"Several columns would be {', '.join(names)}: only texts can be joined, into question or answer."
        return [error("columns", "data.columns", message, "Give each --rename another name.")]
    if not columns_ok(names):
        allowed = " or ".join(f"[{', '.join(columns)}]" for columns in COLUMN_SETS)
        message = f"MaxText's SFT supports {allowed}; given: [{', '.join(names)}]."
        return [
            error("columns", "data.columns", message, "Select them with --columns, name them with --rename OLD=NEW.")
        ]
    if format == "arrayrecord" and "messages" in names:
        message = "An array record contains only texts, so MaxText cannot read conversations from it."
        return [error("grain-columns", "data.columns", message, "Leave --format out: Grain also reads parquet.")]
    return []


def _folder_word(path: str, files: str | None) -> str:
    """Return a word for the folder: the last part of `org/ultrachat_200k`, the file's name of `rows-*.jsonl`."""
    stem = posixpath.basename((files if path in FILE_FORMATS and files else path).rstrip("/")).partition(".")[0]
    return re.sub(r"[^A-Za-z0-9]+", "-", stem).strip("-").lower()[:40] or "data"


def address(plan: Preparation, content: Sequence[str]) -> str:
    """Return `<name>-<12 hex>` of the inputs. `content`: the digest of each source's files, or its commit on the
    hub.
    """
    sources: list[RowSource] = []
    for source in plan.sources:
        # The digest depends on the loader, not on the folder of the files.
        loader = source.path if source.path in FILE_FORMATS else "folder"
        sources.append(source if source.on_hub else replace(source, path=loader, files=None))
    inputs = {"way": WAY, "content": list(content), **to_builtins(replace(plan, name="", sources=tuple(sources)))}
    if any(len(source.names) < len(source.columns) for source in sources):  # texts are joined in this order
        inputs["joined"] = [list(source.columns) for source in sources]
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    return f"{plan.name}-{digest[:12]}"


def shard_count(*, rows: int, size: int, hosts: int, requested: int | None) -> int:
    """Return the number of shards of a split of `size` bytes: a multiple of the hosts, without empty shards."""
    fewest = max(SHARDS_PER_HOST * hosts, requested or 0, -(-size // LARGEST_SHARD))
    even = -(-fewest // hosts) * hosts
    if even <= rows:
        return even
    return max(rows // hosts * hosts, min(rows, hosts))


def preparation_problems(counted: Mapping[SplitName, SplitCount], plan: Preparation) -> tuple[Problem, ...]:
    """Return the problems that prevent writing: at most one of each split."""
    problems = (_split_problem(name, split_count, plan) for name, split_count in counted.items())
    return tuple(problem for problem in problems if problem is not None)


def _split_problem(name: str, split_count: SplitCount, plan: Preparation) -> Problem | None:
    if split_count.refused and not plan.skip_bad:
        shown = "; ".join(f"row {fault.row} {fault.fault}" for fault in split_count.faults)
        hidden = split_count.refused - len(split_count.faults)
        if hidden:
            shown = f"{shown}; and {hidden:,} more"
        message = f"{name}: {split_count.refused:,} rows cannot be trained on: {shown}."
        sharegpt = " For messages with from and value, use --from-sharegpt." if "from and value" in shown else ""
        fix = f"Correct them, or leave them out with --skip-bad.{sharegpt}"
        return error("data-rows-refused", "data", message, fix)
    if split_count.rows:
        return None
    if name == "eval" and plan.eval_share is not None:
        message = f"--eval-share {plan.eval_share:g} gives the evaluation no row."
        return error("data-empty", "data", message, "Use a larger share, or name files for evaluation.")
    message = f"{name}: no rows found{' that can be trained on' if split_count.refused else ''}."
    return error("data-empty", "data", message, "Check the files and the name of the split.")


def shard_problems(prepared: PreparedDataset, plan: Preparation) -> Iterator[Problem]:
    """Yield warnings on splits with too few rows for the shards that their hosts need; no shard is empty."""
    fewest: Mapping[SplitName, int] = {"train": SHARDS_PER_HOST * plan.hosts, "eval": plan.hosts}
    for split, rows in prepared.rows.items():
        shards = sum(shard.split == split for shard in prepared.shards)
        if shards >= fewest[split]:
            continue
        message = f"{split}: {rows:,} rows make {shards} shards; {plan.hosts} hosts need {fewest[split]} or more."
        why = "A run that resumes then reads more rows twice."
        if shards < plan.hosts:
            why = "Every host then reads all files to find its rows."
        fix = "Use fewer hosts or more rows, or continue: the run trains the same rows."
        yield warning("data-few-shards", "data", f"{message} {why}", fix)


def pattern(to: str, prepared: PreparedDataset, split: SplitName) -> str:
    """Return the pattern of the shards; it has their number, which checks.resumption reads."""
    shards = sum(shard.split == split for shard in prepared.shards)
    return f"{to}/{prepared.attempt}/{split}-*-of-{shards:05d}.{prepared.format}"


def data_section(run: Run, prepared: PreparedDataset, *, to: str) -> dict[str, Any]:
    """Return the workload's `data` section changed to read the prepared files."""
    replaced = {"hf_path", "hf_name", "hf_data_dir", "hf_train_files", "hf_eval_files", "train_split", "hf_eval_split",
                "columns", "eval_columns", "rows"}  # fmt: skip
    unchanged = run.spec.data.model_dump(exclude_unset=True, exclude=replaced)
    evaluated = "eval" in prepared.rows
    other = prepared.eval_columns and prepared.eval_columns != prepared.columns
    return {
        **({"pipeline": "grain"} if prepared.format == "arrayrecord" else {}),
        "hf_path": prepared.format,
        "hf_train_files": pattern(to, prepared, "train"),
        **({"hf_eval_files": pattern(to, prepared, "eval")} if evaluated else {}),
        "columns": list(prepared.columns),
        **({"eval_columns": list(prepared.eval_columns)} if other else {}),
        "rows": prepared.rows["train"],
        **unchanged,
    }

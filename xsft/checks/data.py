"""Check the data: columns that SFT takes, enough rows for the steps, a location that the pods can read, and the rows
themselves: their shape in the first megabyte, and what MaxText's own pipeline makes of a sample. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from posixpath import relpath

from xsft.base.problems import Problem, error, note, warning
from xsft.catalog.data import SCHEME, SHIPPED
from xsft.catalog.datasets import COLUMN_SETS, Dataset, columns_ok, dataset
from xsft.catalog.releases import at_least
from xsft.catalog.tokenizers import refuses_system, wants_alternating_roles
from xsft.checks.facts import Facts
from xsft.checks.hub_data import names_of
from xsft.checks.special_tokens import reads_texts
from xsft.checks.trainer_keys import is_on, number, where_of
from xsft.data.facts import DataFacts
from xsft.data.findings import findings, summarize
from xsft.data.passes import FaultyRow, PassAnswers, Split, inspection_of, reading_of
from xsft.data.refusals import refused_rows_problem
from xsft.spec.base import Keys
from xsft.spec.paths import FILE_FORMATS, GRAIN_FORMATS, in_folder, named_paths, relative_paths
from xsft.spec.resolve import Run
from xsft.trainer.arguments import QUESTION_FORMATTER
from xsft.workers.row_shape import ROLES, is_question, messages_of, shape_fault

LOADERS = frozenset({"audiofolder", "imagefolder", "pandas", "videofolder", "webdataset", "xml"})
"""Loaders of datasets besides those of files that xsft reads. source: datasets@5.2.0 packaged_modules/__init__.py."""
_NOT_HUB = ("/", ".", "~", "gs://", "xsft://")

STREAMING_HOSTS = 16
"""Number of hosts above which a warning is given. source: MaxText docs, data_input_hf.md: more hosts might encounter
read time out from the hub."""
LATE_IDS = frozenset(
    {"data-columns", "data-conversation", "data-roles", "data-template", "data-no-target", "data-truncated",
     "data-no-end", "data-role-dropped", "data-empty-turn", "data-null", "data-parts", "data-text-dropped",
     "data-text-added", "data-key-unread", "data-vocabulary", "data-leak", "data-steps", "data-sorted", "data-refused",
     "data-unreadable"}
)  # fmt: skip
"""Problems that are found once MaxText has answered, which may be after a plan."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    yield from check_packaged_data(run, keys, facts)
    yield from check_data(run, keys, facts)
    yield from check_rows(run, keys, facts)


def check_data(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check for data that would stop the run at its first row, end it early, or be in a place that the pods cannot
    read."""
    catalogued = dataset(run.spec.data.hf_path)
    yield from _check_columns_and_files(run)
    yield from _check_grain_data(run)
    if catalogued is not None:
        yield from _check_known_dataset(run, catalogued)
    yield from _check_enough_rows(run, keys, facts)
    yield from _check_streaming(run)
    yield from _check_paths(run, facts)


def _check_columns_and_files(run: Run) -> Iterator[Problem]:
    allowed = " or ".join(f"[{', '.join(names)}]" for names in COLUMN_SETS)
    data = run.spec.data
    for field, columns in (("columns", data.columns), ("eval_columns", data.eval_columns)):
        if columns is not None and not columns_ok(columns):
            message = f"MaxText's SFT supports {allowed}; given: [{', '.join(columns)}]."
            fix = "Rename the columns in the data; MaxText checks them before data.formatting_func runs."
            yield error("columns", f"data.{field}", message, fix)
    data = run.spec.data
    reads_files = data.hf_path in FILE_FORMATS
    if reads_files and not data.hf_train_files:
        message = f"hf_path: {data.hf_path} is a file format, and no files are given."
        yield error("data-files-missing", "data.hf_train_files", message, "Set data.hf_train_files.")
    on_hub = data.hf_path not in LOADERS and not data.hf_path.startswith(_NOT_HUB)
    if data.hf_train_files and not reads_files and on_hub:
        message = f"hf_train_files must be files in the data set {data.hf_path} on the hub."
        fix = "For your own files set hf_path: json or parquet."
        yield warning("data-files-on-hub", "data.hf_path", message, fix)


def _check_grain_data(run: Run) -> Iterator[Problem]:
    """Check the data of the Grain pipeline. source: maxtext@0.2.5 input_pipeline/grain_data_processing.py,
    input_pipeline/data_processing_utils.py [parse_and_keep_features]: of an array record each column is one text;
    tests/contract/test_grain.py."""
    data = run.spec.data
    formats = " or ".join(GRAIN_FORMATS)
    if data.pipeline != "grain":
        if data.hf_path == "arrayrecord":
            message = "Only the Grain pipeline reads arrayrecord."
            yield error("grain-format", "data.pipeline", message, "Set data.pipeline: grain.")
        return
    if not at_least(run.release.version, "0.2.2"):
        message = f"MaxText {run.release.version} supports only Hugging Face's pipeline for SFT."
        yield error("grain-release", "data.pipeline", message, "Use MaxText 0.2.2 or newer, or pipeline: hf.")
    if data.hf_path not in GRAIN_FORMATS:
        message = f"With pipeline: grain hf_path must be a format, {formats}; given: {data.hf_path}."
        yield error("grain-format", "data.hf_path", message, "Create such files: `xsft data prepare`.")
    elif data.hf_path == "arrayrecord" and "messages" in (*data.columns, *(data.eval_columns or ())):
        message = "An array record contains only text, so MaxText fails on the column messages."
        fix = "Use hf_path: parquet, or columns [prompt, completion] or [question, answer]."
        yield error("grain-columns", "data.columns", message, fix)
    for field in ("hf_name", "hf_data_dir", "hf_eval_split"):
        if getattr(data, field) is not None:
            message = f"{field} is for data sets of the hub; Grain reads files and ignores it."
            yield error("grain-format", f"data.{field}", message, f"Remove {field}; give files for evaluation.")


def _check_known_dataset(run: Run, catalogued: Dataset) -> Iterator[Problem]:
    data = run.spec.data
    missing = [column for column in data.columns if column not in catalogued.all_columns]
    if missing:
        message = (
            f"{catalogued.hf_path} has no column {', '.join(missing)}; it has {', '.join(catalogued.all_columns)}."
        )
        fix = f"Write columns: [{', '.join(catalogued.columns)}]."
        yield error("columns-dataset", "data.columns", message, fix, kind="disputable")
    if not data.hf_data_dir and (data.hf_name or "") not in catalogued.configurations:
        names = ", ".join(name or "none (leave hf_name out)" for name in catalogued.configurations)
        message = f"{catalogued.hf_path} has no configuration {data.hf_name or '(none given)'}."
        yield error("dataset-configuration", "data.hf_name", message, f"Use one of: {names}.", kind="disputable")


def _check_enough_rows(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check that the rows are enough for the steps. Without packing each sequence holds one row; packing needs more
    rows per step."""
    counted = facts.data.counted if facts.data else None
    rows = counted or training_rows(run)
    padded = is_on(keys.get("generate_padding_batch_train"))
    if rows is None or padded or (run.spec.on_cluster and run.slice is None):
        return
    epochs = run.spec.data.num_epoch or 1
    per_step = rows_per_step(run, keys)
    possible_steps = rows * epochs // per_step if per_step else 0
    if run.spec.train.steps > possible_steps:
        message = (
            f"{run.spec.train.steps} steps of {per_step} sequences need {run.spec.train.steps * per_step:,} rows; the "
            f"data has {rows * epochs:,}. MaxText would stop after at most {possible_steps} steps and exit 0."
        )
        epochs_needed = -(-run.spec.train.steps * per_step // rows)
        fix = f"Use at most {possible_steps} steps, or set data.num_epoch to {epochs_needed} or more."
        # The files' and the user's own count are certain; the catalogue's may be older than the data set.
        if counted or run.spec.data.rows is not None:
            yield error("steps-beyond-data", "train.steps", message, fix)
        else:
            yield warning("steps-beyond-data", "train.steps", message, fix)
    elif run.spec.data.packing is not False and run.spec.train.steps * 2 > possible_steps:
        message = (
            f"Packing puts several rows into a sequence, so {rows * epochs:,} rows give fewer than "
            f"{possible_steps} steps, perhaps too few."
        )
        fix = "Set data.num_epoch higher; it may also be raised later, under the same name, for a run that ended short."
        yield warning("packing-shortens", "train.steps", message, fix)


def rows_per_step(run: Run, keys: Keys) -> int:
    """Return the sequences that one step loads from all hosts; a fraction of a sequence per device still loads a whole
    one.

    source: maxtext@0.2.5 configs/types.py calculate_global_batch_sizes.
    """
    per_device = number(keys.get("per_device_batch_size")) or 1.0
    accumulated = int(number(keys.get("gradient_accumulation_steps")) or 1)
    return int(run.devices * max(1.0, per_device)) * accumulated


def training_rows(run: Run) -> int | None:
    """Return the rows of the training split: the workload's number, else the catalogue's; None if neither is known."""
    data = run.spec.data
    catalogued = dataset(run.spec.data.hf_path)
    if data.rows is not None:
        return data.rows
    if catalogued is None or data.hf_train_files:
        return None
    counts = [catalogued.rows(name, hf_name=data.hf_name or "") for name in names_of(data.train_split)]
    return sum(count or 0 for count in counts) if None not in counts else None


def _check_streaming(run: Run) -> Iterator[Problem]:
    """Check reads from the hub: in McJAX every host streams for itself; under Pathways only the head does."""
    data = run.spec.data
    from_hub = data.hf_path not in FILE_FORMATS and not data.hf_path.startswith(_NOT_HUB)
    if not run.spec.on_cluster or run.mode.single_controller or run.slice is None or not from_hub:
        return
    hosts = run.slice.hosts * run.num_slices
    if hosts > STREAMING_HOSTS:
        message = (
            f"{hosts} hosts would stream {data.hf_path} from the hub at once: timeouts and HTTP 429 end such runs "
            "early, with exit 0."
        )
        fix = "Copy the files to gs:// and write hf_path: parquet with data.hf_train_files, or use mode: pathways."
        yield warning("hub-streaming", "data.hf_path", message, fix)


def _check_paths(run: Run, facts: Facts) -> Iterator[Problem]:
    """Check for paths of this machine, which a pod does not have; an absolute path may be in the image. And for rows in
    a bucket, which MaxText's environment on this machine cannot read; an image has gcsfs."""
    for where, path in named_paths(run.spec).items():
        if not run.spec.on_cluster:
            if path.startswith("gs://") and where.startswith("data.") and not run.spec.image.ref:
                message = f"The training on this machine cannot read {path}: MaxText's environment has no gcsfs."
                fix = "Copy the files here (`gcloud storage cp`), and name the copy; or set image.ref."
                yield error("data-unreadable", where, message, fix)
        elif path.startswith("xsft://"):
            continue
        elif path.startswith("/"):
            message = f"{path} must exist in the image: the pods cannot see this machine's files."
            yield warning(
                "local-path", where, message, "Put it on gs://, or accept this under `checks:` if it is in the image."
            )
        elif path.startswith((".", "~")) or (
            path.endswith((".json", ".jsonl", ".parquet", ".jinja")) and "://" not in path
        ):
            message = f"{path} is a path on this machine, and the pods cannot see it."
            yield error("local-path", where, message, "Copy it to gs:// and use that path.")
    # In earlier versions relative paths started from the current folder.
    for where, path in relative_paths(run.spec).items():
        used = run.paths.get(path)
        if used is not None and used != in_folder(facts.folder, path):
            message = f"{path} is {used}: it exists only in the current folder, not in the workload's, {facts.folder}."
            fix = f"Relative paths start from the workload's folder: write {relpath(used, facts.folder)}."
            yield warning("path-current-folder", where, message, fix)


def check_packaged_data(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check `packaged-data-unknown` and `packaged-data-remote`; in `keys`, packaged data is already a path."""
    del facts
    for key, value in keys.items():
        if not isinstance(value, str) or not value.startswith(SCHEME):
            continue
        if run.spec.on_this_machine:
            names = ", ".join(SCHEME + name for name in SHIPPED)
            message = f"{value} is not a file of xsft. Known: {names}."
            yield error("packaged-data-unknown", where_of(key, run), message, "Use one of these, or a path.")
        else:
            message = f"{value} is a file of this machine's xsft; a container on a cluster does not have it."
            yield error("packaged-data-remote", where_of(key, run), message, "Use the hub or gs://, or target: local.")


def check_rows(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check rows of the files for training, and of those for evaluation."""
    sampled: tuple[tuple[DataFacts | None, str, Split], ...] = (
        (facts.data, "data.hf_train_files", "train"),
        (facts.eval_data, "data.hf_eval_files", "eval"),
    )
    row_problems: list[Problem] = []
    for data, where, split in sampled:
        if data is not None:
            row_problems.extend(_check_files(run, keys, data, where=where, split=split))
    yield from row_problems
    if facts.counted is not None:
        # The last `xsft data inspect` read the same rows with the same keys: it repeats what the files show.
        shown = {problem.id for problem in row_problems}
        origin = f"(xsft data inspect, {facts.counted.on}, {facts.counted.rows})"
        for problem in facts.counted.problems:
            if problem.id not in shown:
                yield replace(problem, message=f"{problem.message} {origin}")
    if facts.data is not None and facts.data.counted is not None:
        named = run.spec.data.rows
        counted = facts.data.counted
        if named is not None and counted and named != counted:
            message = f"data.rows is {named:,}, but the files have {counted:,} rows."
            fix = f"Set rows: {counted}, or remove it; xsft counts the files' rows."
            yield warning("data-rows", "data.rows", message, fix)


def check_row_answers(run: Run, answers: PassAnswers, *, found: Sequence[Problem]) -> Iterator[Problem]:
    """Yield what MaxText's answers on a sample say, except problems of an id that the checks already found."""
    reported = {problem.id for problem in found}
    inspection = inspection_of(run, answers)
    reading = reading_of(run)
    summary = summarize(inspection, reading=reading, vocabulary=answers.vocabulary)
    yield from (one for one in findings(inspection, summary, reading=reading) if one.id not in reported)


def not_answered(why: str, fix: str = "") -> Problem:
    """Return the note that MaxText was not asked about the rows."""
    message = f"Only columns, types and roles of the first megabyte of rows were checked: {why.rstrip('.')}."
    return note("data-not-counted", "data", message, fix or "Ask MaxText: `xsft data inspect FILE`.", kind="unread")


def _check_files(run: Run, keys: Keys, data: DataFacts, *, where: str, split: Split) -> Iterator[Problem]:
    if data.problem:
        yield data.problem
        return
    if data.counted == 0:
        yield error("data-empty", where, "The files have no rows; MaxText would fail at its start.", "Add rows.")
        return
    if data.empty:
        yield warning("data-empty", where, f"{len(data.empty):,} files are empty: {data.empty[0]}.", "Remove them.")
    # What a user's own function or the multimodal pipeline takes from the columns is unknown.
    if not _reads_messages(keys):
        return
    columns = run.spec.data.columns
    if split == "eval" and run.spec.data.eval_columns:
        columns = run.spec.data.eval_columns
    texts = keys.get("dataset_type") == "grain"
    faults = [
        FaultyRow(row=row, at=sampled.at, id=fault.id, fault=fault.why)
        for row, sampled in enumerate(data.rows)
        if (fault := shape_fault(sampled.row, columns, texts=texts))
    ]
    for name in dict.fromkeys(fault.id for fault in faults):
        yield refused_rows_problem(
            [faulty for faulty in faults if faulty.id == name], count=len(data.rows), where=where
        )
    if not faults and not is_question(columns, texts=texts):
        yield from _check_known_template(run, keys, data, columns, where=where)


def _reads_messages(keys: Keys) -> bool:
    """Return whether MaxText reads messages, or questions and answers, from the columns."""
    formatter = keys.get("formatting_func_path")
    own_formatter = formatter and formatter != QUESTION_FORMATTER
    return not own_formatter and reads_texts(keys) and not is_on(keys.get("use_multimodal"))


def _check_known_template(
    run: Run, keys: Keys, data: DataFacts, columns: Sequence[str], *, where: str
) -> Iterator[Problem]:
    """Check the roles against the catalogue, for a chat template that is not on this machine."""
    if keys.get("chat_template") or keys.get("chat_template_path"):
        return
    for sampled in data.rows:
        roles = [str(message["role"]) for message in messages_of(sampled.row, columns)]
        if refused := _refused_roles(roles, run.tokenizer or ""):
            what, fix = refused
            message = f"{sampled.at} has {what}, which the chat template of {run.tokenizer} refuses."
            yield error("data-template", where, message, f"{fix}: data.chat_template.", kind="disputable")
            return


def _refused_roles(roles: Sequence[str], tokenizer: str) -> tuple[str, str] | None:
    """Return the part of the row that the tokenizer's template refuses, and the fix; None if none is known."""
    if "system" in roles and refuses_system(tokenizer):
        return "a system message", "Move its text into the first question, or set a template that accepts it"
    read = [role for role in roles if role in ROLES]
    if ("user", "user") in pairwise(read) and wants_alternating_roles(tokenizer):
        return "two questions in a row", "Join them, or set a template that accepts both"
    return None

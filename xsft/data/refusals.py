"""Problems of rows and files on which MaxText's pipeline stops. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from xsft.base.problems import Problem, error
from xsft.data.passes import FaultyRow, PassRead

SHAREGPT_LINE = (
    "`xsft data prepare FILE --from-sharegpt --columns conversations --rename conversations=messages` writes them so."
)
JOINED_INPUT = " --rename input=question"
ALPACA_LINE = (
    f"`xsft data prepare FILE --columns question,answer --rename instruction=question{JOINED_INPUT} "
    "--rename output=answer` writes them so."
)
FIXES: Mapping[str, str] = {
    "data-columns": (
        "Set data.columns to the columns of the rows, or rename them: `xsft data prepare FILE --columns A,B --rename "
        "A=question --rename B=answer`."
    ),
    "data-conversation": (
        "Write each conversation as a list of messages with role and content; texts go into the columns "
        "[question, answer]."
    ),
    "data-roles": "Write system (once, first), then user and assistant in turn.",
    "data-template": "Correct data.chat_template, or the rows that it refuses.",
}

_UNREADABLE = re.compile(
    r"^(FileNotFoundError|DataFilesNotFoundError|PermissionError|IsADirectoryError|UnicodeDecodeError|EmptyDatasetError)\b"
    r"|^ArrowInvalid|^JSONDecodeError|^ParserError|Parquet magic bytes|^DatasetGenerationError|^CastError"
    r"|^TypeError: Couldn't cast"
)
"""Errors of datasets and pyarrow for a file that is missing, not readable or broken, or whose rows have other types."""
_NO_TOKENIZER = re.compile(
    r"backend tokenizer|Can't load tokenizer|is not a valid model identifier|^OSError: Repo id must"
)
"""Errors of transformers for a folder or a repository without a tokenizer."""
_NO_COLUMNS = "TypeError: 'NoneType' object is not subscriptable"
"""Error of MaxText if datasets found no columns in the first file."""
_NO_ROWS = ("StopIteration", "ValueError: Column name")
"""Beginnings of errors for files without a row; the second one also has an empty list of columns."""
_NO_MESSAGES = "Dataset is not in conversational format"
MOST_WORDS = 1000
"""Maximum characters of MaxText's message: some of its errors print its whole configuration."""


def check_refused_rows(sample: PassRead, *, where: str) -> Iterator[Problem]:
    """Yield one problem for each class of rows on which MaxText stops, and the error that is not of one row."""
    faults = refused_rows(sample)
    for name in dict.fromkeys(fault.id for fault in faults):
        of_class = [fault for fault in faults if fault.id == name]
        yield refused_rows_problem(of_class, count=max(len(sample.given), of_class[-1].row + 1), where=where)
    if sample.error and not faults:
        yield _uneven_keys(sample, where) or data_refused(sample.error)


def refused_rows(sample: PassRead) -> tuple[FaultyRow, ...]:
    """Return the rows on which MaxText stops. If it formatted none, those whose shape is wrong are the reason."""
    if sample.error and not sample.good:
        return sample.faults
    shapes = {fault.row: fault for fault in sample.faults}
    formatted = (
        shapes.pop(row, FaultyRow(row=row, id="data-template", fault=given_row.fault))
        for row, given_row in enumerate(sample.given)
        if given_row.fault
    )
    return (*formatted, *(fault for row, fault in shapes.items() if row >= len(sample.given)))


def refused_rows_problem(faults: list[FaultyRow], *, count: int, where: str) -> Problem:
    """Return the problem of rows of one class. `count`: rows that were read."""
    first = faults[0]
    message = f"{len(faults):,} of {count:,} rows stop MaxText: {first.at or f'row {first.row}'} {first.fault}."
    return error(first.id, where, message, fix_of(first), kind="disputable")


def fix_of(fault: FaultyRow) -> str:
    if "ShareGPT" in fault.fault:
        return SHAREGPT_LINE
    if "Alpaca" not in fault.fault:
        return FIXES[fault.id]
    if " input," in fault.fault:
        return ALPACA_LINE
    return ALPACA_LINE.replace(JOINED_INPUT, "")


def _uneven_keys(sample: PassRead, where: str) -> Problem | None:
    """Return the problem of messages with different keys, which datasets does not read as messages."""
    if _NO_MESSAGES not in sample.error or len(sample.keys) < 2:
        return None
    shown = " and ".join(f"[{', '.join(keys)}]" for keys in sample.keys[:2])
    message = f"Messages have different keys, {shown}: MaxText stops with `{_NO_MESSAGES}`."
    fix = "Give every message the same keys, with null where a message has none: `xsft data prepare FILE` does."
    return error("data-conversation", where, message, fix, kind="disputable")


def data_refused(text: str) -> Problem:
    """Return the problem of MaxText's error."""
    words = text
    if len(text) > MOST_WORDS:
        words = f"{text[:MOST_WORDS]} …"
    if text.startswith(_NO_ROWS[0]) or (text.startswith(_NO_ROWS[1]) and text.endswith("Columns in the dataset: []")):
        fix = "Check data.hf_train_files, data.hf_eval_files and the names of the splits."
        return error("data-empty", "data", "The data has no rows.", fix)
    if _NO_TOKENIZER.search(text):
        message = f"The tokenizer cannot be loaded: {words.splitlines()[0]}"
        fix = "Use a folder with tokenizer.json and tokenizer_config.json, or a repository on the hub."
        return error("tokenizer-unreadable", "model.tokenizer", message, fix)
    if text.startswith(_NO_COLUMNS):
        message = "MaxText finds no columns in the first file: its JSON is broken, or it is one JSON array."
        return error("data-unreadable", "data", message, "Write one JSON object per line.")
    if _UNREADABLE.search(text):
        fix = "Check that data.hf_train_files and data.hf_eval_files are whole files of the format in data.hf_path."
        return error("data-unreadable", "data", f"The files of the data cannot be read: {words}", fix)
    fix = "Correct the data section; the words are MaxText's."
    return error("data-refused", "data", f"MaxText refuses the data: {words}", fix)

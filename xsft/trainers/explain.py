"""The reason why a trainer ended, in one or two sentences, from its last lines. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xsft.trainers.lines import ConfigError, DataEnded, TrainingAborted, trainer_event
from xsft.trainers.plain import plain_line

MAX_CHARACTERS = 600

_UNKNOWN_KEY = re.compile(r"'([^']*)' not in '")
_EXCEPTION = re.compile(
    r"^([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Iteration|Timeout)\b.*|[\w.]+\.\w*Error\w*: .*"
    r"|[a-z_]\w*(?:\.\w+)*\.[A-Z]\w*: .*)"  # google.api_core.exceptions.Forbidden: 403 …
)
_RULER = "=========="

EMPTY = "the data set has no rows"
_NO_ROWS = re.compile(
    r"^(?:StopIteration$|ValueError: Instruction .* corresponds to no data|\S*EmptyDatasetError\b"
    r"|ValueError: Column name .* not in the dataset\. Columns in the dataset: \[\])"
)
"""source: datasets@5.2.0 packaged_modules/json/json.py _split_generators (the first of no tables), arrow_reader.py,
load.py, iterable_dataset.py (a file of blank lines has no columns); the first and the last met by asking.
"""
_OF_DATA = re.compile(r'^\s+File ".*[/\\]maxtext[/\\]input_pipeline[/\\]', re.IGNORECASE)


def reason(lines: Sequence[str]) -> str | None:
    """Return the cause that the trainer itself names: a configuration error, NaN, the end of the data, else its last
    exception."""
    bare = tuple(plain_line(line) for line in lines)
    for number, line in enumerate(bare):
        match trainer_event(line):
            case ConfigError(message=message):
                return _config_error(message, bare[number + 1 :])
            case TrainingAborted(reason=why):
                return f"MaxText stopped because of {why}"
            case _:
                pass
    if no_rows(bare):
        return EMPTY
    raised = exception(bare)
    return _cut_text(raised) if raised else _data_ended(bare)


def exception(lines: Sequence[str]) -> str | None:
    """Return the line of the last exception that ended Python."""
    found, ignored = "", False
    for line in lines:
        if line.startswith("Exception ignored in"):  # from the clean-up at interpreter exit: not the cause
            ignored = True
        elif _EXCEPTION.match(line):
            found, ignored = (found if ignored else line), False
    return found or None


def no_rows(lines: Sequence[str]) -> str | None:
    """Return the exception of MaxText's input pipeline for an empty data set."""
    through = False
    for line in lines:
        if line.startswith("Traceback"):
            through = False
        through = through or _OF_DATA.match(line) is not None
        if through and _NO_ROWS.match(line):
            return line
    return None


def _config_error(message: str, following: Sequence[str]) -> str:
    """Return MaxText's message without the list of its 900 names, and with the further lines of a pydantic message."""
    if unknown := _UNKNOWN_KEY.match(message):
        return f"MaxText does not know the key {unknown[1]!r}"
    more = _until_ruler(following)
    return _cut_text(f"MaxText refused its configuration: {' '.join((message, *more))}")


def _until_ruler(lines: Sequence[str]) -> list[str]:
    more: list[str] = []
    for line in lines:
        if _RULER in line or line.startswith("Traceback"):
            break
        if "errors.pydantic.dev" not in line:
            more.append(line.strip())
    return more


def _data_ended(lines: Sequence[str]) -> str | None:
    ended = any(isinstance(trainer_event(line), DataEnded) for line in lines)
    return "the data ended" if ended else None


def _cut_text(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"

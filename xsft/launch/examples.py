"""The examples of a workload's training data that a user picks, and a picture of their lengths."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from xsft.base.errors import UsageError
from xsft.base.problems import Problem
from xsft.base.reporting import Reporter
from xsft.data.passes import SAMPLE, PassAnswers, Split, TokenSequence, Vocabulary
from xsft.launch.data_sample import DataInspection, refused_examples
from xsft.launch.training_data import inspect_data, show_data
from xsft.machine.files import refuse_unless_free, write_atomic
from xsft.planning.api import LoadedWorkload
from xsft.runs.pictures import lengths_picture


class ExamplePick(Struct, frozen=True, kw_only=True):
    """The examples to show."""

    count: int = 3
    """Maximum number of examples, unless `rows` are given."""
    rows: tuple[int, ...] = ()
    """Exactly these rows; the first is 0."""
    longest: bool = False
    """Whether the longest examples are first."""
    truncated: bool = False
    """Only examples that fill max_target_length."""
    no_target: bool = False
    """Only examples without a trained token."""
    find: str | None = None
    """Those that contain this text."""
    split: Split = "train"
    packed: bool = False
    """Whole packed sequences."""
    everything: bool = False
    """Search all rows, not only the first ones."""

    @property
    def rows_to_read(self) -> int | None:
        """Return the number of rows to read; None for all."""
        if self.everything:
            return None
        searches = self.longest or self.truncated or self.no_target or self.find
        return max((*self.rows, -1)) + 1 or (SAMPLE if searches else self.count)


class PickedExamples(Struct, frozen=True, kw_only=True):
    """The rows that were read, and those of them that were picked."""

    answers: PassAnswers
    examples: tuple[tuple[int, TokenSequence], ...]
    """(row, sequence) of each example."""
    problems: tuple[Problem, ...] = ()
    """Of the rows on which MaxText stops."""


def show_examples(workload: LoadedWorkload, pick: ExamplePick, *, listener: Reporter) -> PickedExamples:
    """Return the examples as the model sees them. Raises UsageError for a row beyond the last one, and as
    `training_data.show_data`.
    """
    with listener.working("data") as say:
        answers = show_data(workload, split=pick.split, rows=pick.rows_to_read, packed=pick.packed, progress=say)
    problems = tuple(refused_examples(answers, split=pick.split))
    return PickedExamples(answers=answers, examples=pick_examples(answers, pick), problems=problems)


def pick_examples(answers: PassAnswers, pick: ExamplePick) -> tuple[tuple[int, TokenSequence], ...]:
    """Return (row, sequence) of each example to show. Raises UsageError for a row beyond the last one."""
    _refuse_rows_beyond(answers, pick)
    numbered = list(answers.passes[0].good)
    if pick.rows:
        return tuple((row, one) for row, one in numbered if row in pick.rows)
    if pick.truncated:
        numbered = [(row, one) for row, one in numbered if not one.padding]
    if pick.no_target:
        numbered = [(row, one) for row, one in numbered if one.trained_tokens == 0]
    if pick.find:
        numbered = [(row, one) for row, one in numbered if pick.find in _sequence_text(one, answers.vocabulary)]
    if pick.longest:
        numbered.sort(key=lambda numbered: -numbered[1].length)
    return tuple(numbered[: pick.count])


def _refuse_rows_beyond(answers: PassAnswers, pick: ExamplePick) -> None:
    count = len(answers.passes[0].rows)
    beyond = [str(row) for row in pick.rows if row >= count]
    if beyond:
        noun = "packed sequences" if pick.packed else "rows"
        message = f"--row {','.join(beyond)}: the {pick.split} split has {count:,} {noun}, numbered from 0."
        raise UsageError(message, fix=f"Give a number up to {count - 1:,}." if count else "Check the data's files.")


def _sequence_text(one: TokenSequence, vocabulary: Vocabulary) -> str:
    return vocabulary.text(token for token, _part in one.tokens)


def inspect_examples(
    workload: LoadedWorkload, *, split: Split, everything: bool, picture: Path | None, listener: Reporter
) -> DataInspection:
    """Return the counts of the training data, with the lengths drawn in the new file `picture` unless that is None.

    Raises UsageError if the file is no PNG, Refused if it exists, and as `training_data.inspect_data`.
    """
    if picture:
        refuse_picture(picture)
    with listener.working("data") as say:
        found = inspect_data(workload, split=split, rows=None if everything else SAMPLE, progress=say)
    if picture:
        write_atomic(picture, lengths_picture(found.summary, limit=found.reading.limit, title=workload.spec.name))
    return found


def refuse_picture(target: Path) -> None:
    """Raise UsageError if the file is no PNG, and as `refuse_unless_free`."""
    if target.suffix != ".png":
        raise UsageError(f"{target}: the picture is a PNG.", fix=f"Name it {target.with_suffix('.png').name}.")
    refuse_unless_free(target, instead="without --png the output has the lengths.")

"""Runs MaxText's own input pipeline on a workload's data, in a separate process on this machine."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import convert

from xsft.base.errors import EnvironmentMissing, SpecError, TimedOut, Unreachable, XsftError
from xsft.base.problems import error
from xsft.catalog.data import located_in
from xsft.data.examples import Vocabulary
from xsft.data.passes import DataPass, PassAnswers, PassRead
from xsft.environments.ask import Interpreter, ProgramFailed, ask
from xsft.evaluation.trainer_plan import held_out_keys
from xsft.launch.local_machine import Machine, program_environment
from xsft.launch.prepare_work import Follower
from xsft.machine.pid_namespace import refuse_where_harmful
from xsft.machine.scratch import scratch_folder
from xsft.spec.base import Value
from xsft.spec.resolve import Run
from xsft.spec.stages import EvaluateStage
from xsft.trainer.arguments import argument
from xsft.trainer.local import reads_only_files
from xsft.trainer.tokenizer_copy import copy_arguments, copy_of
from xsft.trainer.trainer import trainer_of

WORKER = "xsft.workers.read_examples"
HERE: Mapping[str, Value] = {
    "hardware": "cpu",
    "skip_jax_distributed_system": True,
    "enable_goodput_recording": False,
    "enable_single_controller": False,
    "grain_worker_count": 0,
    "log_config": False,
    "enable_data_shuffling": False,
    "per_device_batch_size": 1,
    "num_epoch": 1,
    "generate_padding_batch_train": False,
    "generate_padding_batch_eval": False,
}
"""Keys for one CPU device, and rows in the order of the file, up to the last. None of them changes a row."""
_NOT_HERE = ("ici_", "dcn_", "load_parameters_path=", "lora.", "profiler", "gradient_accumulation_steps=")
"""Keys of meshes and weights, which this machine does not have."""

_OFFLINE = re.compile(
    r"^(\w*ConnectionError|ConnectTimeout|OfflineModeIsEnabled)\b|LocalEntryNotFoundError|Couldn't reach"
)
"""Errors of datasets and huggingface_hub if no server answered."""

_UNREADABLE = re.compile(
    r"^(FileNotFoundError|DataFilesNotFoundError|PermissionError|IsADirectoryError|UnicodeDecodeError|EmptyDatasetError)\b"
    r"|^ArrowInvalid|^JSONDecodeError|^ParserError|Parquet magic bytes|^DatasetGenerationError"
)
"""Errors of datasets and pyarrow for a file that is missing, not readable or broken."""

_NO_TOKENIZER = re.compile(
    r"backend tokenizer|Can't load tokenizer|is not a valid model identifier|^OSError: Repo id must"
)
"""Errors of transformers for a folder or a repository without a tokenizer."""
_NO_COLUMNS = "TypeError: 'NoneType' object is not subscriptable"
"""Error of MaxText if datasets found no columns in the first file."""
_NO_ROWS = ("StopIteration", "ValueError: Column name")
"""Beginnings of errors for files without a row; the second one also has an empty list of columns."""

SAMPLE_S = 1800.0
"""Maximum time for a sample: 2,000 rows take seconds."""
MOST_WORDS = 1000
"""Maximum characters of MaxText's message: some of its errors print its whole configuration."""


def read_passes(
    run: Run,
    passes: tuple[DataPass, ...],
    *,
    machine: Machine,
    say: Callable[[str], None],
    timeout_s: float | None = SAMPLE_S,
) -> PassAnswers:
    """Return the answers; `say` gets lines of progress. Raises SpecError with MaxText's own message if it refuses the
    data, EnvironmentMissing if it cannot run, TimedOut after `timeout_s`.
    """
    contained = machine.contain()
    refuse_where_harmful(contained)
    with scratch_folder("data") as scratch:
        folder = str(scratch)
        passes_json = [
            {
                "argv": _pass_argv(run, one, folder),
                "rows": one.rows,
                "split": one.split,
                "lengths_only": one.lengths_only,
                "expected": _expected_rows(run, one),
            }
            for one in passes
        ]
        interpreter = Interpreter(
            python=machine.python,
            env={**program_environment(machine, scratch, online=not reads_only_files(run)), "JAX_PLATFORMS": "cpu"},
            prefix=contained.prefix,
            options=_copy_command(run, folder),
            cwd=Path.cwd(),
            timeout_s=timeout_s,
        )
        follower = Follower(say=say, verb="read", total=None)
        try:
            return _parse_answers(ask(interpreter, WORKER, {"passes": passes_json}, follower.line))
        except TimedOut as expired:
            message = f"MaxText's pipeline did not end within {timeout_s:g} s"
            raise TimedOut(message, fix="Check that the files are not on a slow or hanging disk.") from expired
        except ProgramFailed as failed:
            if failed.error is not None:
                raise _data_refused(failed.error) from failed
            fix = "run `xsft setup maxtext`"
            raise EnvironmentMissing(f"MaxText's pipeline did not run: {failed.printed}", fix=fix) from failed


def _expected_rows(run: Run, one: DataPass) -> int | None:
    """Return the rows that the pass reads, for the time left; None if that is unknown."""
    known = (one.rows, None if one.packing or one.split == "eval" else run.spec.data.rows)
    return min((number for number in known if number and number < sys.maxsize), default=None)


def _parse_answers(found: Mapping[str, Any]) -> PassAnswers:
    readings = tuple(_pass_read_of(one) for one in found["passes"])
    return PassAnswers(passes=readings, vocabulary=_parse_vocabulary(found["vocabulary"]))


def _data_refused(text: str) -> XsftError:
    words = text if len(text) <= MOST_WORDS else f"{text[:MOST_WORDS]} …"
    if _OFFLINE.search(text):
        fix = "Check the network, or name a copy: --set data.hf_path=json --set data.hf_train_files=FILE."
        return Unreachable(f"MaxText could not fetch the data: {words}", fix=fix)
    if text.startswith(_NO_ROWS[0]) or (text.startswith(_NO_ROWS[1]) and text.endswith("Columns in the dataset: []")):
        fix = "Check data.hf_train_files, data.hf_eval_files and the names of the splits."
        return SpecError((error("data-empty", "data", "The data has no rows.", fix),))
    if _NO_TOKENIZER.search(text):
        message = f"The tokenizer cannot be loaded: {words.splitlines()[0]}"
        fix = "Use a folder with tokenizer.json and tokenizer_config.json, or a repository on the hub."
        return SpecError((error("tokenizer-unreadable", "model.tokenizer", message, fix),))
    if text.startswith(_NO_COLUMNS):
        message = "MaxText finds no columns in the first file: its JSON is broken, or it is one JSON array."
        return SpecError((error("data-unreadable", "data", message, "Write one JSON object per line."),))
    if _UNREADABLE.search(text):
        fix = "Check that data.hf_train_files and data.hf_eval_files are whole files of the format in data.hf_path."
        return SpecError((error("data-unreadable", "data", f"The files of the data cannot be read: {words}", fix),))
    fix = "Correct the data section; the words are MaxText's."
    return SpecError((error("data-refused", "data", f"MaxText refuses the data: {words}", fix),))


def _parse_vocabulary(found: Mapping[str, Any]) -> Vocabulary:
    texts = {int(token): bytes.fromhex(text) for token, text in found["texts"].items()}
    kinds = {int(token): kind for token, kind in found["kinds"].items()}
    return Vocabulary(texts=texts, kinds=kinds, named=found["named"], rows=found["rows"])


def _pass_read_of(found: Mapping[str, Any]) -> PassRead:
    rows = found["rows"]
    if rows and isinstance(rows[0], int):
        return PassRead(lengths=tuple(rows), ended=found["ended"])
    return convert(found, PassRead)


def _pass_argv(run: Run, one: DataPass, folder: str) -> tuple[str, ...]:
    """Return the trainer's own command line, with this machine's keys in place of the slices'."""
    keys: dict[str, Value] = {
        **HERE,
        "base_output_directory": folder,
        "packing": one.packing,
        "max_target_length": one.max_target_length,
        **_eval_keys(run, one),
        **({"tokenizer_path": _copy(folder)} if copy_of(run) else {}),
    }
    gone = (*_NOT_HERE, *(f"{key}=" for key in keys))
    kept = (word for word in trainer_of(run).trainer_argv(run) if not word.startswith(gone))
    return (*kept, *(argument(key, value) for key, value in keys.items()))


def _eval_keys(run: Run, one: DataPass) -> dict[str, Value]:
    """Return the evaluation keys. MaxText reads the evaluation data only if an evaluation is configured."""
    if one.split == "train":
        return {"eval_interval": -1}
    held_out = held_out_keys(run, EvaluateStage())
    return {"eval_interval": 1, "eval_per_device_batch_size": 1, **located_in(held_out)}


def _copy_command(run: Run, folder: str) -> tuple[str, ...]:
    """Return the command that copies the tokenizer as for the trainer, but into a folder of this call."""
    made = copy_arguments(run)
    return (*made[:-1], _copy(folder)) if made else ()


def _copy(folder: str) -> str:
    return f"{folder}/tokenizer"

"""Asks MaxText's own input pipeline about a workload's rows, in a process of its own; equal questions once."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from xsft.base.errors import EnvironmentMissing, SpecError, TimedOut, Unreachable, XsftError
from xsft.base.lenient import ShowLine
from xsft.data.passes import SPLITS, DataPass, PassAnswers, PassRead, Split, Vocabulary
from xsft.data.refusals import MOST_WORDS, data_refused
from xsft.data.row_files import FetchedRows, fetch_rows, files_content
from xsft.environments.ask import Interpreter, ProgramFailed, ask
from xsft.machine.files import write_private
from xsft.machine.paths import scratch_folder
from xsft.spec.base import Value
from xsft.spec.paths import FILE_FORMATS
from xsft.spec.resolve import Run
from xsft.trainer.arguments import argument
from xsft.trainer.tokenizer_copy import copying_of, copying_words
from xsft.trainer.trainer import trainer_of
from xsft.workers.delivery import files_of

WORKER = "xsft.workers.read_examples"
HERE: Mapping[str, Value] = {
    "run_name": "rows",
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
_NOT_HERE = (
    "ici_", "dcn_", "load_parameters_path=", "lora.", "profiler", "gradient_accumulation_steps=", "steps=",
    "learning_rate", "checkpoint_", "warmup_",
)  # fmt: skip
"""Keys of meshes, weights and the schedule, which no row depends on."""

_OFFLINE = re.compile(
    r"^(\w*ConnectionError|ConnectTimeout|OfflineModeIsEnabled)\b|LocalEntryNotFoundError|Couldn't reach"
)
"""Errors of datasets and huggingface_hub if no server answered."""

SAMPLE_S = 1800.0
"""Maximum time for a sample: 2,000 rows take seconds."""


class PipelineHost(Struct, frozen=True, kw_only=True):
    """The MaxText of this machine, and where its answers are stored."""

    python: Path
    env: Mapping[str, str]
    prefix: tuple[str, ...]
    """Words in front of the command, for a PID namespace of its own."""
    answers: Path
    """Folder of the answers; may be deleted at any time."""
    digest: str = ""
    """Digest of the environment; empty: answers are not stored."""


def read_passes(
    run: Run,
    passes: tuple[DataPass, ...],
    *,
    host: PipelineHost,
    held_out: Mapping[str, Value],
    tokenizer: str | None = None,
    say: ShowLine = lambda _line: None,
    on_line: Callable[[str], None] = lambda _line: None,
    timeout_s: float | None = SAMPLE_S,
) -> PassAnswers:
    """Return the answers. Raises SpecError with MaxText's own message if it cannot begin, EnvironmentMissing if it
    cannot run, Unreachable if the data cannot be fetched, TimedOut after `timeout_s`.

    `held_out`: the keys of the evaluation's data. `tokenizer`: folder of the tokenizer; None: as the workload names it.
    `on_line`: gets the worker's messages.
    """
    patterns = {split: files for split in SPLITS if (files := _files_of(run, split))}
    contents = {split: files_content(files, say=say) for split, files in patterns.items()}
    argvs = pass_argvs(run, passes, held_out)
    stored = None
    # A tokenizer or data on the hub may change: only an answer about files is stored.
    if tokenizer and contents and all(contents.values()):
        stored = _answer_file(host, (argvs, to_builtins(passes), _tokenizer_content(tokenizer), contents))
    if stored and (answer := _stored_answer(stored)):
        return parse_answers(answer)
    # Rows of a bucket are copied: MaxText's environment has no client of Cloud Storage.
    with scratch_folder("data") as scratch:
        copies = tuple(
            fetch_rows(
                files,
                scratch / split,
                split=split,
                rows=max((data_pass.rows for data_pass in passes if data_pass.split == split), default=0),
            )
            for split, files in patterns.items()
        )
        job = worker_job(run, passes, argvs, copies, scratch=scratch, tokenizer=tokenizer)
        interpreter = Interpreter(
            python=host.python,
            env={**host.env, "TMPDIR": str(scratch), "JAX_PLATFORMS": "cpu"},
            prefix=host.prefix,
            options=_copy_words(run, tokenizer, folder=scratch / "tokenizer"),
            cwd=Path.cwd(),
            timeout_s=timeout_s,
        )
        answer = _ask_worker(interpreter, job, on_line=on_line)
    if stored:
        write_private(stored, json.dumps(answer).encode())
    return parse_answers(answer)


def _files_of(run: Run, split: Split) -> str | None:
    """Return the pattern of a split's files; None if the data set is a folder or on the hub."""
    data = run.spec.data
    if data.hf_path not in FILE_FORMATS or data.hf_data_dir:
        return None
    return run.files_of(split)


def _tokenizer_content(folder: str) -> tuple[str, ...]:
    """Return digests of a tokenizer's files."""
    files = sorted(Path(folder).glob("*"))
    return tuple(hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file())


def _answer_file(host: PipelineHost, question: object) -> Path | None:
    if not host.digest:
        return None
    text = json.dumps([host.digest, files_of(WORKER), question], sort_keys=True, default=str)
    return host.answers / f"{hashlib.sha256(text.encode()).hexdigest()}.json"


def _stored_answer(file: Path) -> dict[str, Any] | None:
    try:
        answer: dict[str, Any] = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return answer


def pass_argvs(run: Run, passes: tuple[DataPass, ...], held_out: Mapping[str, Value]) -> tuple[tuple[str, ...], ...]:
    """Return the trainer's own command line for each pass, with this machine's keys in place of the slices', and
    without files of rows."""
    argv = trainer_of(run).trainer_argv(run)
    files = tuple(f"{_files_key(run, split)}=" for split in SPLITS if _files_of(run, split))
    argvs: list[tuple[str, ...]] = []
    for data_pass in passes:
        keys: dict[str, Value] = {**HERE, "packing": data_pass.packing, "eval_interval": -1}
        if data_pass.split == "eval":  # MaxText reads the evaluation data only if an evaluation is configured
            keys |= {"eval_interval": 1, "eval_per_device_batch_size": 1, **held_out}
        replaced = (*_NOT_HERE, *files, *(f"{key}=" for key in keys), "base_output_directory=")
        unchanged = (word for word in argv[argv.index("-m") :] if not word.startswith(replaced))
        added = (argument(key, value) for key, value in keys.items() if f"{key}=" not in files)
        argvs.append((*unchanged, *added))
    return tuple(argvs)


def _files_key(run: Run, split: Split) -> str:
    return f"{'grain' if run.spec.data.pipeline == 'grain' else 'hf'}_{split}_files"


def worker_job(
    run: Run,
    passes: tuple[DataPass, ...],
    argvs: tuple[tuple[str, ...], ...],
    copies: tuple[FetchedRows, ...],
    *,
    scratch: Path,
    tokenizer: str | None,
) -> dict[str, Any]:
    """Return the question to the worker."""
    keys: dict[str, Value] = {"base_output_directory": str(scratch)}
    if tokenizer or copying_of(run):
        keys["tokenizer_path"] = str(scratch / "tokenizer") if copying_of(run) else tokenizer
    keys |= {_files_key(run, copy.split): copy.pattern for copy in copies}
    added = tuple(argument(key, value) for key, value in keys.items())
    return {
        "passes": [
            {
                "argv": (*argv, *added),
                "rows": data_pass.rows,
                "split": data_pass.split,
                "expected": _expected_rows(run, data_pass),
            }
            for data_pass, argv in zip(passes, argvs, strict=True)
        ],
        "partial": [copy.split for copy in copies if copy.partial],
        "footed": [str(file) for copy in copies for file in copy.footed],
    }


def _expected_rows(run: Run, data_pass: DataPass) -> int | None:
    """Return the rows that the pass reads, for the time left; None if that is unknown."""
    counts = [data_pass.rows]
    if run.spec.data.rows and not data_pass.packing and data_pass.split == "train":
        counts.append(run.spec.data.rows)
    return min((count for count in counts if count < sys.maxsize), default=None)


def _copy_words(run: Run, tokenizer: str | None, *, folder: Path) -> tuple[str, ...]:
    """Return the words that copy the tokenizer as for the trainer, but into `folder`."""
    copying = copying_of(run)
    if copying is None:
        return ()
    return copying_words(replace(copying, tokenizer=tokenizer or copying.tokenizer), folder=str(folder))


def _ask_worker(interpreter: Interpreter, job: dict[str, Any], *, on_line: Callable[[str], None]) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = ask(interpreter, WORKER, job, on_line)
    except TimedOut as expired:
        message = f"MaxText's pipeline did not end within {interpreter.timeout_s or 0:g} s"
        raise TimedOut(message, fix="Check that the files are not on a slow or hanging disk.") from expired
    except ProgramFailed as failed:
        if failed.error is not None:
            raise _not_begun(failed.error) from failed
        fix = "run `xsft setup maxtext`"
        raise EnvironmentMissing(f"MaxText's pipeline did not run: {failed.printed}", fix=fix) from failed
    return answer


def parse_answers(answer: Mapping[str, Any]) -> PassAnswers:
    """Return the answers. Raises Unreachable if the hub did not answer."""
    reads = convert(answer["passes"], tuple[PassRead, ...])
    for read in reads:
        if _OFFLINE.search(read.error):
            raise _not_begun(read.error)
    tokens = answer["vocabulary"]
    texts = {int(token): bytes.fromhex(text) for token, text in tokens["texts"].items()}
    kinds = {int(token): kind for token, kind in tokens["kinds"].items()}
    vocabulary = Vocabulary(texts=texts, kinds=kinds, named=tokens["named"], rows=tokens["rows"])
    return PassAnswers(passes=reads, vocabulary=vocabulary)


def _not_begun(text: str) -> XsftError:
    if _OFFLINE.search(text):
        fix = "Check the network, or name a copy: --set data.hf_path=json --set data.hf_train_files=FILE."
        return Unreachable(f"MaxText could not fetch the data: {text[:MOST_WORDS]}", fix=fix)
    return SpecError((data_refused(text),))

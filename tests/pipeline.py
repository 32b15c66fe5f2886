"""Runs MaxText's real input pipeline: the tokens that the trainer gets, and which of them the loss counts.

    def test_x(maxtext_pipeline: Pipeline) -> None:
        rows = maxtext_pipeline.rows(intent.trainer_argv, {"tokenizer_path": str(folder)})
        assert rows[0].trained == ("4", "<|end|>")

One MaxText process answers the whole test session (tests/contract/maxtext_rows.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.maxtext import Worker
from xsft.catalog.data import located
from xsft.environments.ask import PROGRAMS
from xsft.spec.base import Value
from xsft.trainer.arguments import argument

ROWS = Path(__file__).parent / "contract" / "maxtext_rows.py"

HERE: Mapping[str, Value] = {
    "hardware": "cpu",
    "skip_jax_distributed_system": True,
    "enable_goodput_recording": False,
    "grain_worker_count": 0,
    "log_config": False,
    "enable_data_shuffling": False,
}
"""What a machine with one CPU device adds to any command line; rows come in the order of the file."""

NOT_HERE = ("ici_", "dcn_")
"""Keys of meshes, for which the devices are not here."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One sequence of a batch. Position i holds the token read there and the target predicted from it."""

    inputs: tuple[int, ...]
    """Token ids, padding included."""
    inputs_segmentation: tuple[int, ...]
    """Number of the example, from 1; 0 is padding. Without packing MaxText says 1 of padding, too, where its id is not
    0.
    """
    targets: tuple[int, ...]
    targets_segmentation: tuple[int, ...]
    """0: the loss does not count this target."""
    tokens: Mapping[int, str]
    """Text of each id."""

    @property
    def text(self) -> str:
        """Return the text that the model reads."""
        return "".join(self.read)

    @property
    def read(self) -> tuple[str, ...]:
        """The tokens the model reads: those that belong to an example."""
        return tuple(self.tokens[i] for i, used in zip(self.inputs, self.inputs_segmentation, strict=True) if used)

    @property
    def trained(self) -> tuple[str, ...]:
        """The tokens whose prediction is trained."""
        return tuple(self.tokens[i] for i, used in zip(self.targets, self.targets_segmentation, strict=True) if used)


class PipelineError(Exception):
    """MaxText refused the command line or its data; the message is MaxText's."""


@dataclass(kw_only=True)
class Pipeline:
    worker: Worker
    said: tuple[str, ...] = field(default=(), init=False)
    """What MaxText logged for the last question."""

    def rows(self, argv: Sequence[str], here: Mapping[str, Value] | None = None, *, batches: int = 1) -> list[Row]:
        """The first batches' sequences, in order. `here` replaces keys of argv that lead away from this machine.

        Raises PipelineError with what MaxText said.
        """
        answer = self.worker.ask({"argv": with_keys(argv, {**HERE, **(here or {})}), "batches": batches})
        self.said = tuple(answer["said"])
        if "error" in answer:
            raise PipelineError(answer["error"])
        tokens = {int(token): text for token, text in answer["tokens"].items()}
        columns = ({name: tuple(ids) for name, ids in row.items()} for row in answer["rows"])
        return [Row(**row, tokens=tokens) for row in columns]

    def examples(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of xsft's own program that reads rows."""
        answer = self.worker.ask({"program": {"folder": str(PROGRAMS), "job": job}})
        assert "error" not in answer, answer["error"]
        return dict(answer)

    def parquet(self, rows: Sequence[Mapping[str, Any]], *, file: Path) -> Path:
        """`file`, holding these rows: Grain's pipeline reads no JSON."""
        answer = self.worker.ask({"parquet": str(file), "rows": rows})
        assert "error" not in answer, answer["error"]
        return file

    def order(self, files: str, *, seed: int, hosts: int, rows: int) -> list[list[int]]:
        """Column `row` of the first `rows` that each host reads, in its order. `files`: JSON lines, a pattern."""
        answer = self.worker.ask({"order": files, "how": {"seed": seed, "hosts": hosts, "rows": rows}})
        assert "error" not in answer, answer["error"]
        return [list(map(int, host)) for host in answer["order"]]

    def shuffles(self, *, seed: int, epochs: int) -> list[dict[str, Any]]:
        """Return the arguments of `shuffle`, call by call."""
        tokenizer = located("xsft://tiny/tokenizer")
        answer = self.worker.ask({"shuffles": {"seed": seed, "epochs": epochs, "tokenizer": tokenizer}})
        assert "error" not in answer, answer["error"]
        return list(answer["shuffles"])


def with_keys(argv: Sequence[str], keys: Mapping[str, Value]) -> tuple[str, ...]:
    """argv with these keys in place of its own, and without those that need other devices."""
    gone = tuple(f"{key}=" for key in keys)
    words = (word for word in argv if not word.startswith((*gone, *NOT_HERE)))
    return (*words, *(argument(key, value) for key, value in keys.items()))

"""Data sets of known size and columns, and the column sets that SFT supports. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from xsft.catalog.data import toml

COLUMN_SETS: tuple[tuple[str, ...], ...] = (("messages",), ("prompt", "completion"), ("question", "answer"))
"""Column sets that SFT supports, in any order; with formatting_func_path any columns are allowed. source: maxtext@0.2.5
maxtext/input_pipeline/data_processing_utils.py validate_and_configure_sft_columns.
"""


class Dataset(Struct, frozen=True, kw_only=True):
    """A data set repository on Hugging Face."""

    hf_path: str
    columns: tuple[str, ...]
    """The columns to train on."""
    all_columns: tuple[str, ...]
    configurations: Mapping[str, Mapping[str, int]]
    """hf_name → split → rows. Without a default configuration ("") training fails unless hf_name is set."""
    files_of: Mapping[str, Mapping[str, int]]
    """hf_name → split → number of files."""

    several_rounds: bool
    """Whether conversations have more than one question and answer."""

    def rows(self, split: str, *, hf_name: str = "") -> int | None:
        """Return the number of rows; None if the data set has no such split or configuration."""
        return self.configurations.get(hf_name, {}).get(split)

    def files(self, split: str, *, hf_name: str = "") -> int | None:
        """Return the number of files; None if the data set has no such split or configuration."""
        return self.files_of.get(hf_name, {}).get(split)

    def splits(self, *, hf_name: str = "") -> tuple[str, ...]:
        return tuple(self.configurations.get(hf_name, {}))


def dataset(hf_path: str) -> Dataset | None:
    """Return the data set; None if it is not in datasets.toml; it may exist all the same."""
    row = toml("datasets.toml").get(hf_path)
    if row is None:
        return None
    columns, all_columns = tuple(row["columns"]), tuple(row["all_columns"])
    return Dataset(
        hf_path=hf_path,
        columns=columns,
        all_columns=all_columns,
        configurations=row["configurations"],
        files_of=row["files"],
        several_rounds=row.get("several_rounds", False),
    )


def columns_ok(columns: Iterable[str]) -> bool:
    """Return whether SFT supports these columns without a formatting function."""
    names = tuple(columns)
    return any(set(names) == set(allowed) for allowed in COLUMN_SETS)

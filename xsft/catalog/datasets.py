"""Data sets whose size and columns are known, and the column sets that SFT takes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from xsft.catalog.data import toml

COLUMN_SETS: tuple[tuple[str, ...], ...] = (("messages",), ("prompt", "completion"), ("question", "answer"))
"""In any order; a formatting function (formatting_func_path) lifts the limit.
source: maxtext@0.2.5 maxtext/input_pipeline/data_processing_utils.py validate_and_configure_sft_columns."""


class Dataset(Struct, frozen=True, kw_only=True):
    """One repository on Hugging Face."""

    hf_path: str
    columns: tuple[str, ...]
    """The set to give SFT."""
    all_columns: tuple[str, ...]
    configurations: Mapping[str, Mapping[str, int]]
    """hf_name → split → rows. A data set without a default configuration ("") stops when hf_name is not given."""
    files_of: Mapping[str, Mapping[str, int]]
    """hf_name → split → files."""

    def rows(self, split: str, *, hf_name: str = "") -> int | None:
        """Rows of the split; None when the data set has no such split or configuration."""
        return self.configurations.get(hf_name, {}).get(split)

    def files(self, split: str, *, hf_name: str = "") -> int | None:
        """Files of the split; None when the data set has no such split or configuration."""
        return self.files_of.get(hf_name, {}).get(split)

    def splits(self, *, hf_name: str = "") -> tuple[str, ...]:
        return tuple(self.configurations.get(hf_name, {}))


def dataset(hf_path: str) -> Dataset | None:
    """None for any data set that is not in datasets.toml: unknown, not wrong."""
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
    )


def columns_ok(columns: Iterable[str]) -> bool:
    """Whether SFT takes these columns without a formatting function."""
    given = tuple(columns)
    return any(set(given) == set(allowed) for allowed in COLUMN_SETS)

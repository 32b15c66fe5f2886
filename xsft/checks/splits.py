"""Check splits of the data: MaxText streams them, so a split has a name and no slice. Pure.

source: maxtext@0.2.5 input_pipeline/hf_data_processing.py (streaming=True), configs/types.py (hf_eval_files);
datasets@5.2.0 builder.py as_streaming_dataset ("Bad split"), data_files.py sanitize_patterns (files are `train`)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from xsft.base.problems import Problem, error, warning
from xsft.catalog.datasets import dataset
from xsft.checks.facts import Facts
from xsft.spec.base import Keys
from xsft.spec.resolve import Run

_NAME = re.compile(r"\w+(\.\w+)*")
"""Pattern of a split's name. source: datasets@5.2.0 naming.py _split_re."""

_ALL = "all"
"""Name that stands for all splits, unless a split has this name."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check for a split that MaxText would not find once the slices are taken."""
    del keys, facts
    data = run.spec.data
    yield from _check_split(run, data.train_split, "data.train_split", of_files=data.hf_train_files is not None)
    if (
        data.hf_eval_split is not None and data.hf_eval_files is None
    ):  # for files MaxText uses the split `train` by default
        yield from _check_split(run, data.hf_eval_split, "data.hf_eval_split", of_files=False)


def names_of(split: str) -> tuple[str, ...]:
    """Return the names of the splits in the text; `a+b` is two."""
    return tuple(name.strip() for name in split.split("+"))


def _check_split(run: Run, split: str, where: str, *, of_files: bool) -> Iterator[Problem]:
    if not all(_NAME.fullmatch(name) for name in names_of(split)):
        message = (
            f"{split!r} is not the name of a split. MaxText streams the data, and streams have no slices: it fails "
            f"with `ValueError: Bad split: {split}`."
        )
        bare = split.partition("[")[0].strip()
        advice = f"Use {bare}; " if _NAME.fullmatch(bare) else "Use the name of a split; "
        yield error(
            "split-slice",
            where,
            message,
            f"{advice}to train on a part of the rows, lower train.steps or write them to files.",
        )
        return
    if of_files:
        if set(names_of(split)) - {"train", _ALL}:
            message = f"hf_train_files have one split, `train`, but {split} is set: MaxText fails with `Bad split`."
            yield error("split-of-files", where, message, "Set it to train; the files determine the rows.")
    else:
        yield from _check_known_split(run, split, where)
    joined = len(names_of(split)) > 1 or split == _ALL
    if joined and run.spec.on_cluster and run.spec.image.name is None:
        message = f"{split} joins splits, which the Python package datasets supports for streams only from 5.0 on."
        fix = "Use one split, or accept this under `checks:` if the image has datasets 5.0 or newer."
        yield warning("split-joined", where, message, fix)


def _check_known_split(run: Run, split: str, where: str) -> Iterator[Problem]:
    catalogued = dataset(run.spec.data.hf_path)
    splits = catalogued.splits(hf_name=run.spec.data.hf_name or "") if catalogued else ()
    missing = [name for name in names_of(split) if name not in splits]
    if catalogued and splits and missing and split != _ALL:
        message = f"{catalogued.hf_path} has no split {' or '.join(missing)}."
        yield error("dataset-split", where, message, f"Use one of: {', '.join(splits)}.", kind="disputable")

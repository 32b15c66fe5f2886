"""Counts of `xsft data inspect`, stored for `xsft check`; valid for the same data, template, tokenizer and keys.
Pure.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from msgspec import to_builtins

from xsft.checks.facts import Facts
from xsft.spec.resolve import Run
from xsft.trainer.trainer import trainer_of

NOT_OF_DATA = frozenset(
    {"run_name", "base_output_directory", "load_parameters_path", "learning_rate", "checkpoint_period", "profiler"}
)
"""Keys that do not change the counts."""


OF_FILES = frozenset({"hf_train_files", "hf_eval_files", "grain_train_files", "grain_eval_files"})
"""Keys with paths of files: a copy elsewhere with the same bytes gives the same counts."""


def address(run: Run, facts: Facts) -> str:
    """Return a digest of everything that decides the counts, as far as this machine can read it."""
    keys = _data_keys(run)
    files = [run.spec.data.hf_eval_split, run.spec.data.hf_eval_files]
    return _count_digest(run, facts, keys=keys, eval=files, rows=facts.data.content if facts.data else None)


def content_address(run: Run, facts: Facts) -> str | None:
    """Return a digest as `address` does, with the files' content in place of their names; None if it is not known."""
    train, evaluated = (found.content if found else "" for found in (facts.data, facts.eval_data))
    if not train or bool(evaluated) != bool(run.spec.data.hf_eval_files):
        return None
    keys = {key: value for key, value in _data_keys(run).items() if key not in OF_FILES}
    return _count_digest(run, facts, keys=keys, eval=[run.spec.data.hf_eval_split, evaluated], content=train)


def _data_keys(run: Run) -> dict[str, Any]:
    return {key: value for key, value in trainer_of(run).trainer_keys(run).items() if key not in NOT_OF_DATA}


def _count_digest(run: Run, facts: Facts, **decided: Any) -> str:
    more = {
        "release": run.release.version,
        "slices": [str(run.slice), run.num_slices],
        "tokenizer": to_builtins(facts.tokenizer),
    }
    text = json.dumps({**decided, **more}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()

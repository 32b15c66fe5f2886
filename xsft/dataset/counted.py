"""What `xsft data inspect` counted, kept for `xsft check`: of the same data, template, tokenizer and keys. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from msgspec import to_builtins

from xsft.facts import Facts
from xsft.spec.resolve import Run
from xsft.trainers.trainer import trainer_of

NOT_OF_DATA = frozenset(
    {"run_name", "base_output_directory", "load_parameters_path", "learning_rate", "checkpoint_period", "profiler"}
)
"""Keys that change nothing of what is counted."""


def address(run: Run, facts: Facts) -> str:
    """A digest of everything that decides what is counted, as far as it can be seen from here."""
    keys = {k: v for k, v in trainer_of(run).trainer_keys(run).items() if k not in NOT_OF_DATA}
    decided: dict[str, Any] = {
        "keys": keys,
        "release": run.release.version,
        "slices": [str(run.slice), run.num_slices],
        "eval": [run.spec.data.hf_eval_split, run.spec.data.hf_eval_files],
        "rows": facts.data.digest if facts.data else None,
        "tokenizer": to_builtins(facts.tokenizer),
    }
    text = json.dumps(decided, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()

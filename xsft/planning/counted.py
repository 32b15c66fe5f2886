"""Counts of `xsft data inspect`, stored for `xsft check`; valid for the same data, template, tokenizer and keys.
Pure.
"""

from __future__ import annotations

import hashlib
import json

from msgspec import to_builtins
from msgspec.structs import replace

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
    """Return a digest of everything that decides the counts, with the files' content, or their names if it is not
    known."""
    data = run.spec.data
    rows = ((facts.data, data.hf_train_files), (facts.eval_data, data.hf_eval_files))
    # xsft data inspect does not ask the hub for the commit, at which a planned run copies its tokenizer.
    keys = trainer_of(run).trainer_keys(replace(run, hub_commits={}))
    decided = {
        "keys": {key: value for key, value in keys.items() if key not in NOT_OF_DATA | OF_FILES},
        "rows": [(read and read.content) or pattern for read, pattern in rows],
        "eval": data.hf_eval_split,
        "release": run.release.version,
        "slices": [str(run.slice), run.num_slices],
        "tokenizer": to_builtins(facts.tokenizer),
    }
    return hashlib.sha256(json.dumps(decided, sort_keys=True, default=str).encode()).hexdigest()

"""Runs in an environment with transformers, of any version and without torch: what it reads of model folders.

usage: reads.py FOLDER… Prints `{folder: {"config", "tokens"}}`, or `{"error"}` in its own words.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import transformers

TEXT = "<|user|>\nWhat is 2 + 3?<|end|>"


def read(folder: str) -> dict[str, Any]:
    try:
        config = transformers.AutoConfig.from_pretrained(folder)
        tokens = transformers.AutoTokenizer.from_pretrained(folder)(TEXT)["input_ids"]
    except Exception as failed:  # noqa: BLE001 - the reader's own words are the answer
        return {"error": f"{type(failed).__name__}: {failed}"}
    return {"config": getattr(config, "text_config", config).to_dict(), "tokens": tokens}


print(json.dumps({folder: read(folder) for folder in sys.argv[1:]}, default=str))

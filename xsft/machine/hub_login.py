"""The user's own login to the Hugging Face hub: a file. The value of a cluster's Secret is never read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def hub_token(env: Mapping[str, str]) -> dict[str, str]:
    """Return the path of the file that the user's `hf auth login` wrote; the file is not read. source: huggingface_hub
    constants.py HF_TOKEN_PATH.
    """
    home = Path(env.get("HF_HOME") or Path(env.get("HOME", "/")) / ".cache" / "huggingface")
    path = Path(env.get("HF_TOKEN_PATH") or home / "token")
    return {"HF_TOKEN_PATH": str(path)} if path.is_file() else {}

"""Compares a converted checkpoint with the Hugging Face weights it was made of. Runs as a program in MaxText's
environment (`workers.answering`).

Each tensor goes through the hooks of MaxText's import with the workload's sizes, and is compared with its slice of the
checkpoint, as an export is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from xsft.workers.answering import answer_question
from xsft.workers.compare_export import answer as compare_folders
from xsft.workers.export_judging import values_problems

FILES = ("*.json", "*.model", "*.jinja", "merges.txt")
INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Return `{"folder": of the source}`; if `compared`, with `problems`, and the tensors `compared` of `all`.

    `source`: `{"repo", "revision"}`; `compared`: the question to `compare_export` without folders, or null.
    """
    folder = source_folder(**job["source"])
    if job["compared"] is None:
        return {"folder": folder}
    found = compare_folders({**job["compared"], "folders": [folder]})
    (own,) = found["folders"]
    problems = list(values_problems({**own, "unexported": found["unexported"]}))
    return {"folder": folder, "problems": problems, "compared": own["compared"], "all": found["all_targets"]}


def source_folder(*, repo: str, revision: str | None) -> str:
    """Return the folder of the weights. The converter downloaded those of a repository; others' files stay away."""
    if Path(repo).is_dir():
        return repo
    from huggingface_hub import snapshot_download  # type: ignore[import-not-found]

    index = Path(snapshot_download(repo, revision=revision, allow_patterns=list(FILES)), INDEX)
    shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()) if index.exists() else {SINGLE}
    return str(snapshot_download(repo, revision=revision, allow_patterns=[*FILES, *shards]))


if __name__ == "__main__":
    answer_question(answer)

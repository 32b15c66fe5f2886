"""Placeholder names that places.yaml and the templates of `xsft init` ship with. They are never looked up. Pure."""

from __future__ import annotations

import re

PLACEHOLDERS = frozenset({"my-project", "my-cluster", "my-bucket"})

FIX = (
    "Put your own project, zone, cluster, bucket and registry into the workload's place or places.yaml, or use another"
    " place or --context."
)


def placeholder_in(*texts: str | None) -> str | None:
    """Return the first placeholder among the parts of names, addresses or gs:// paths; None if a user has written them
    all."""
    parts = (part for text in texts for part in re.split(r"[/:]", text or ""))
    return next((part for part in parts if part in PLACEHOLDERS), None)


def is_placeholder(name: str) -> str:
    """Return the sentence that the name is a placeholder."""
    return f"{name} is a placeholder from xsft's templates."

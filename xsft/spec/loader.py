"""Parse YAML by PyYAML's safe loader. Pure."""

from __future__ import annotations

from typing import Any

import yaml

SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader if it is installed: ten times as fast, and some people have a hundred contexts."""


def load_yaml(text: str) -> Any:
    """Return the parsed document. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=SAFE_LOADER)  # noqa: S506 - a safe loader

"""MaxText's configuration for a trainer's command line. Imported by programs that run in MaxText's environment."""

from __future__ import annotations

import unittest  # noqa: F401 - MaxText exits the process on a configuration error unless it sees this module
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any


def configured(argv: Sequence[str]) -> Any:
    """`argv`: `python3 -m module key=value …`; options of an exporter (`--…`) are left out."""
    from maxtext.configs import pyconfig  # type: ignore[import-not-found]

    module, *arguments = argv[list(argv).index("-m") + 1 :]
    found = find_spec(module)
    keys = [one for one in arguments if not one.startswith("--")]
    return pyconfig.initialize_pydantic([found.origin if found else module, *keys])

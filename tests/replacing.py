"""`replace` for both kinds of values: msgspec's Structs and dataclasses; Python 3.13 has it as `copy.replace`."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def replace(value: T, /, **changes: Any) -> T:
    other: Any = msgspec.structs.replace if isinstance(value, msgspec.Struct) else dataclasses.replace
    return other(value, **changes)  # type: ignore[no-any-return]

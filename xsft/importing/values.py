"""Parse values on a trainer's command line as MaxText does: YAML 1.1 with floats like `1e5`. Pure.

source: omegaconf 2.3 _utils.py (its YAML loader: no timestamps, floats without a dot); maxtext@0.2.5
configs/pyconfig.py (OmegaConf.from_cli).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import isfinite
from typing import Any

import yaml

from xsft.catalog.releases import MAPPINGS
from xsft.spec.base import Value

_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?"
    r"|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)"
)
_ALIAS = re.compile(r"(?:^|[-:,\[{]\s*)\*[A-Za-z]", re.MULTILINE)
"""It may stand for a text that grows without end."""
SCALARS = (bool, int, float, str)
_LIMIT = 2**63
"""Largest integer in xsft's own YAML (spec.yamltext)."""
_DROPPED_TAGS = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:float")


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with OmegaConf's floats."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _DROPPED_TAGS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"^(?:{_FLOAT.pattern})$"), list("-+.0123456789"))


def read_value(text: str) -> Value:
    """Return the typed value. Raises ValueError if MaxText could not read it or a workload cannot hold it: mappings,
    lists in lists.
    """
    parsed = _parse(text)
    scalars = parsed if isinstance(parsed, list) else [parsed]
    for number in scalars:
        # An integer may be too large for a float, which isfinite makes of it.
        if (isinstance(number, int) and not -_LIMIT < number < _LIMIT) or (
            isinstance(number, float) and not isfinite(number)
        ):
            raise ValueError("it is not a finite 64-bit number")
    if isinstance(parsed, list) and not all(isinstance(scalar, SCALARS) for scalar in scalars):
        raise ValueError("a workload cannot hold lists in lists")
    if parsed is None or isinstance(parsed, (*SCALARS, list)):
        return parsed
    raise ValueError("a workload cannot hold mappings here")


def _parse(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError):
        raise ValueError("MaxText could not read it as YAML") from None


def read_mapping(text: str) -> dict[str, Any]:
    """Return a configuration's keys as MaxText reads them; none of another text, or of one that uses aliases."""
    try:
        parsed = None if _ALIAS.search(text) else _parse(text)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def config_arguments(keys: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the keys as arguments of MaxText; sections as `section.key`."""
    for key, value in keys.items():
        if isinstance(value, dict):
            yield from config_arguments(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={json.dumps(value, ensure_ascii=False, default=str)}"


def leaves(key: str, text: str) -> Iterator[tuple[str, str]]:
    """Split `key={a: {b: c}}` into `key.a.b=c`, which MaxText treats alike; yield anything else unchanged."""
    parsed: Any = None
    if key.partition(".")[0] in MAPPINGS:
        with suppress(ValueError):  # read_value reports the error
            parsed = _parse(text)
    if not isinstance(parsed, dict) or not parsed or not all(isinstance(inner, str) for inner in parsed):
        yield key, text
        return
    for inner, inner_value in parsed.items():
        yield from leaves(f"{key}.{inner}", json.dumps(inner_value, ensure_ascii=False))


def is_same_value(a: Value, b: Value) -> bool:
    """Return whether MaxText treats both values alike: 1 is 1.0, and 0 and 1 are switches."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(is_same_value(x, y) for x, y in zip(a, b, strict=True))
    return a == b

"""Check the values of overrides against the types that MaxText's own parser has for its keys. Pure.

The rules are pydantic's: a number may be written as text, 1 and `yes` are true, and a number is never a text.
tests/contract/test_key_values.py compares with the parser.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator

from xsft.base.problems import Problem, error
from xsft.catalog.releases import DEFAULT, KeyType, key_types
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import number, where_of
from xsft.spec.base import Keys, Value
from xsft.spec.resolve import Run

SWITCHES = frozenset({"0", "1", "on", "off", "t", "f", "true", "false", "y", "n", "yes", "no"})
"""source: pydantic@2.14 docs, conversion table: str to bool."""
HOLDS = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}
SPLIT = frozenset({"adamw_mask", "trainable_parameters_mask", "train_data_columns", "eval_data_columns"})
"""Lists that MaxText also takes as a text. source: maxtext@0.2.5 configs/pyconfig.py [_coerce_to_list]."""
SIGNS = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check the overrides of the release whose types are known; the workload's fields have types of their own."""
    del keys, facts
    if run.release.version != DEFAULT:
        return
    for key, value in run.spec.overrides.maxtext.items():
        key_type = key_types().get(key) if key not in SPLIT else None
        allowed = misfit(value, key_type) if key_type else None
        if allowed:
            message = (
                f"MaxText {DEFAULT} takes {allowed} for {key}, and {value!r} is given; it would fail at its start."
            )
            yield error("maxtext-value", where_of(key, run), message, f"Give {allowed}.", kind="disputable")


def misfit(value: Value, key_type: KeyType) -> str | None:
    """Return a description of the values that the key takes, if this value is not one of them."""
    if value is None:
        return None  # MaxText reads null as its default, or as a text
    if key_type.values is not None and not isinstance(value, list) and _as_text(value) in key_type.values:
        return None
    kinds = tuple(kind for kind in key_type.kinds if kind != "null" and not (kind == "str" and key_type.values))
    if not any(_value_fits(value, kind) for kind in kinds):
        return _in_words(key_type, kinds)
    amount = number(value)
    broken = [(sort, limit) for sort, limit in key_type.bounds if amount is not None and not HOLDS[sort](amount, limit)]
    return " and ".join(f"{SIGNS[sort]} {limit:g}" for sort, limit in broken) or None


def _as_text(value: str | float) -> str:
    """Return the value as lists of allowed values write it, where True is 1."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def _value_fits(value: Value, kind: str) -> bool:
    match kind:
        case "bool":
            return isinstance(value, bool) or str(value).lower() in SWITCHES or value in (0.0, 1.0)
        case "int":
            return isinstance(value, bool) or ((amount := number(value)) is not None and amount.is_integer())
        case "float":
            return isinstance(value, bool) or number(value) is not None
        case "str":
            return isinstance(value, str)
        case _:
            return isinstance(value, list)


WORDS = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "a text", "list": "a list"}


def _in_words(key_type: KeyType, kinds: tuple[str, ...]) -> str:
    values = (f"one of {', '.join(value or repr('') for value in key_type.values)}",) if key_type.values else ()
    return " or ".join((*values, *(WORDS[kind] for kind in kinds)))

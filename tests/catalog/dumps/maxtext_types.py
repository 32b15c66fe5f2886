"""Run by MaxText's own Python: type, allowed values and bounds of each key, as xsft/catalog/key_types.txt has them."""

from __future__ import annotations

import json
import re
import sys
import types
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

sys.modules["maxtext"] = types.ModuleType("maxtext")  # its __init__, which some releases lack, imports every model
sys.modules["maxtext"].__path__ = [
    next(str(folder) for entry in sys.path if (folder := Path(entry) / "maxtext").is_dir())
]
sys.stdout = sys.stderr  # imports print; only the document goes out
from maxtext.configs.types import MaxTextConfig  # noqa: E402

sys.stdout = sys.__stdout__


def kinds(annotation: Any) -> list[str]:
    """Names of plain types, `=value` for each allowed value; nothing for what is not judged."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return kinds(arguments[0])
    if origin in (Union, types.UnionType):
        parts = [kinds(argument) if argument is not type(None) else ["null"] for argument in arguments]
        return [kind for part in parts for kind in part] if all(parts) else []
    if origin is Literal:
        return [f"={argument}" for argument in arguments]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [f"={argument.value}" for argument in annotation]
    return (
        [annotation.__name__] if annotation in (int, float, bool, str) else ["list"] * ((origin or annotation) is list)
    )


def row(name: str, field: Any) -> str | None:
    kinds_of_field = kinds(field.annotation)
    plain = ",".join(kind for kind in kinds_of_field if kind[0] != "=")
    values = "|".join(kind[1:] for kind in kinds_of_field if kind[0] == "=")
    bounds = [re.sub(r"^\w+\((.*)\)$", r"\1", str(bound)) for bound in field.metadata]
    return " ".join((name, plain or "-", values or "-", *bounds)) if kinds_of_field else None


print(json.dumps([line for name, field in sorted(MaxTextConfig.model_fields.items()) if (line := row(name, field))]))

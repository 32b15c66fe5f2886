"""The docstrings below the fields of a class, read from its source: slow, so only for generated schemas and pages."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from textwrap import dedent


def field_docstrings(kind: type) -> dict[str, str]:
    """Return field -> the docstring below it, for fields that the class itself declares. `kind`: a class of xsft."""
    (source,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(source, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(str(text.value.value))
        for field, text in pairwise(source.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }

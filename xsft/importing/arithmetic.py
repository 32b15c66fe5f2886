"""Evaluate shell arithmetic such as `$((1 - USE_PATHWAYS))`. Pure; integers, names, `${N:-0}`, `+ - * / %`,
comparisons, parentheses.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

MAX_CHARACTERS = 200
_DOLLAR = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)")
_DEFAULTED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*):-([0-9]+)\}")
"""`${NAME:-N}`, as in the seed that xsft's own command increments at a restart."""
_ALLOWED = re.compile(r"[\sA-Za-z0-9_+\-*/%()<>=!]*")
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")


def evaluate(source: str, variables: Mapping[str, str]) -> int:
    """Return the value. Raises KeyError for a variable that is not set, ValueError for an unsupported expression."""
    known = _DEFAULTED.sub(lambda match: variables.get(match.group(1)) or match.group(2), source)
    text = _DOLLAR.sub(lambda match: match.group(1) or match.group(2), known).strip()
    if not text or len(text) > MAX_CHARACTERS or not _ALLOWED.fullmatch(text):
        raise ValueError(source)
    try:
        return _evaluate(ast.parse(text, mode="eval").body, variables)
    except (SyntaxError, ZeroDivisionError, RecursionError, MemoryError):
        raise ValueError(source) from None


def _evaluate(node: ast.expr, variables: Mapping[str, str]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return int(number)
        case ast.Name(id=name):
            if not _INTEGER.fullmatch(variables[name]):
                raise ValueError(name)
            return int(variables[name])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, variables)
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _evaluate(left, variables), _evaluate(right, variables))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compare_numbers(op, _evaluate(left, variables), _evaluate(right, variables))
        case _:
            raise ValueError(node)


def _binary(op: ast.operator, left: int, right: int) -> int:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():  # towards zero, as in C
            quotient = abs(left) // abs(right)
            return quotient if (left < 0) == (right < 0) else -quotient
        case ast.Mod():
            return left - right * _binary(ast.Div(), left, right)
        case _:
            raise ValueError(op)


def _compare_numbers(op: ast.cmpop, left: int, right: int) -> int:
    match op:
        case ast.Eq():
            return int(left == right)
        case ast.NotEq():
            return int(left != right)
        case ast.Lt():
            return int(left < right)
        case ast.Gt():
            return int(left > right)
        case ast.LtE():
            return int(left <= right)
        case ast.GtE():
            return int(left >= right)
        case _:
            raise ValueError(op)

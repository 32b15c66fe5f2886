"""Expand braces: `a{b,c}` is `ab ac`; bash does this before any other expansion. Pure.

source: bash 5.2 manual, "Brace Expansion". Quoted text and `${…}` are not expanded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import groupby, product

from xsft.base.errors import SpecError
from xsft.base.problems import error
from xsft.importing.parts import Literal, Part, UnknowableExpansion, Word

MAX_PARTS = 1_000_000
"""Limit on characters and other parts of all words that one word expands to, because each pair of braces doubles them.
Finding the ends of that many braces may take ten times as many steps.
"""
MAX_NESTING = 40

_SEQUENCE = re.compile(r"-?[0-9]+\.\.-?[0-9]+(\.\.-?[0-9]+)?|[A-Za-z]\.\.[A-Za-z](\.\.-?[0-9]+)?")


def expand_braces(word: Word) -> list[Word]:
    """Return the words that bash makes of one word. Sequences such as `{1..3}` stay unknown. Raises SpecError."""
    if not any(_is_unquoted(part) and "{" in part.text for part in word if isinstance(part, Literal)):
        return [word]
    atoms = _atoms(word)
    _require_few(sum(_mark(atom) == "{" for atom in atoms) * len(atoms) // 10, 0)
    return [_join_runs(found) for found in _expand(atoms, depth=0)]


def _is_unquoted(part: Part) -> bool:
    return isinstance(part, Literal) and not part.quoted


def _atoms(word: Word) -> list[Part]:
    """Split the unquoted parts of a word into characters."""
    return [
        atom
        for part in word
        for atom in ([Literal(text=c) for c in part.text] if isinstance(part, Literal) and not part.quoted else [part])
    ]


def _join_runs(atoms: Sequence[Part]) -> Word:
    runs = ((is_plain, list(run)) for is_plain, run in groupby(atoms, key=_is_unquoted))
    joined = ([Literal(text="".join(map(_mark, run)))] if is_plain else run for is_plain, run in runs)
    return tuple(part for run in joined for part in run)


def _mark(part: Part) -> str:
    return part.text if isinstance(part, Literal) and not part.quoted else ""


def _expand(atoms: Sequence[Part], *, depth: int) -> list[list[Part]]:
    _require_few(0, depth)
    segments: list[list[list[Part]]] = []
    at = begin = 0
    while at < len(atoms):
        is_pair = at == begin and "".join(map(_mark, atoms[at : at + 2])) == "{}"  # bash leaves a leading `{}` as it is
        end = None if is_pair else _closing_brace(atoms, at)
        found = None if end is None else _alternatives(atoms[at + 1 : end], depth=depth)
        segments.append(found or [[atoms[at]]])
        if found is None or end is None:
            at += 1
        else:
            at = begin = end + 1
    _require_few(math.prod(map(len, segments)) * len(atoms), depth)
    return [[atom for piece in chosen for atom in piece] for chosen in product(*segments)]


def _require_few(parts: int, depth: int) -> None:
    if parts > MAX_PARTS or depth > MAX_NESTING:
        message = f"the braces expand to more than {MAX_PARTS:,} characters, or more than {MAX_NESTING} levels deep"
        raise SpecError((error("import-nesting", "", message, "Quote them, or write the words out."),))


def _closing_brace(atoms: Sequence[Part], start: int) -> int | None:
    """Return the position of the brace that closes the one at `start`: the first `}` of its level after a comma or
    `..`.
    """
    if _mark(atoms[start]) != "{":
        return None
    separated = False
    for at, mark, level in _levels(atoms, start + 1):
        if level == 0 and mark == "}" and separated:
            return at
        is_range = mark == "." and at + 1 < len(atoms) and _mark(atoms[at + 1]) == "."
        separated = separated or (level == 0 and (mark == "," or is_range))
    return None


def _levels(atoms: Sequence[Part], start: int) -> Iterator[tuple[int, str, int]]:
    """Yield (position, character, open braces around it) from `start` on."""
    level = 0
    for at in range(start, len(atoms)):
        mark = _mark(atoms[at])
        yield at, mark, level
        level = max(0, level + {"{": 1, "}": -1}.get(mark, 0))


def _alternatives(inside: Sequence[Part], *, depth: int) -> list[list[Part]] | None:
    """Return the expanded alternatives between two braces; None if bash leaves them as they are."""
    commas = [at for at, mark, level in _levels(inside, 0) if mark == "," and level == 0]
    if not commas:
        text = "".join(map(_mark, inside)) if all(map(_is_unquoted, inside)) else ""
        return [[UnknowableExpansion(source=f"{{{text}}}")]] if _SEQUENCE.fullmatch(text) else None
    between = (inside[start + 1 : end] for start, end in zip([-1, *commas], [*commas, len(inside)], strict=True))
    return [found for piece in between for found in _expand(piece, depth=depth + 1)]

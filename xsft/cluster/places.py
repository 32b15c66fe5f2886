"""places.yaml: the clusters a user has, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import StringConstraints

from xsft.base.errors import SpecError
from xsft.machine.files import read_places_text
from xsft.machine.paths import places_file
from xsft.machine.process import own_environment
from xsft.spec.base import Section
from xsft.spec.explain import validate
from xsft.spec.place import Place
from xsft.spec.yamltext import ParsedYaml, parse_yaml

_WRAP = "places."


class PlacesFile(Section):
    """The file in the form that is validated: its keys one level down, because they are names."""

    places: dict[Annotated[str, StringConstraints(pattern=r"^[^\s\x00-\x1f]+$")], Place]


def load_places(
    start: Path, *, env: Mapping[str, str] | None = None, home: Path | None = None
) -> tuple[dict[str, Place], str | None]:
    """Return the places by name, and their file; empty and None if there is no file.

    The file is the first one in the order of `places_folders`. Raises SpecError, whose problems name the
    file, if it is invalid or cannot be read.
    """
    file = places_file(start, env=own_environment() if env is None else env, home=home or Path.home())
    if file is None:
        return {}, None
    try:
        return dict(parse_places(read_places_text(file))), str(file)
    except SpecError as wrong:
        problems = [replace(p, where=p.where.removeprefix(_WRAP)).in_file(str(file)) for p in wrong.problems]
    raise SpecError(tuple(problems))


def parse_places(text: str) -> Mapping[str, Place]:
    """Return the places of a file's text. Raises SpecError. Lines and raw texts move one level down with the keys, so
    that a problem finds its line.
    """
    parsed = parse_yaml(text)
    below = ParsedYaml(
        data={"places": parsed.data},
        lines={_WRAP + path: line for path, line in parsed.lines.items()},
        raw={_WRAP + path: raw for path, raw in parsed.raw.items()},
    )
    return validate(PlacesFile, below.data, below).places

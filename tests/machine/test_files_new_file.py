from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from xsft.machine.files import SCHEMA, schema_line


def _address(folder: Path) -> str:
    return schema_line(folder).removeprefix("# yaml-language-server: $schema=").rstrip("\n")


def test_outside_a_checkout_the_schema_is_the_installed_one(tmp_path: Path) -> None:
    assert Path(unquote(urlparse(_address(tmp_path)).path)) == SCHEMA
    assert json.loads(SCHEMA.read_text())["title"] == "xsft workload"


@pytest.mark.parametrize("below", ["workloads", ".", "workloads/team/a"])
def test_inside_a_checkout_the_schema_is_relative(below: str) -> None:
    folder = SCHEMA.parents[2] / below
    address = _address(folder)
    assert address.startswith(".")
    assert Path(f"{folder}/{address}").resolve() == SCHEMA.resolve()
    assert address.count("../") == len(Path(below).parts)

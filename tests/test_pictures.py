"""The README's pictures are what the code draws."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.pictures import FOLDER, ROOT, RUNS, status_picture
from xsft.runs.pictures import comparison_picture


def test_the_picture_of_status_is_up_to_date() -> None:
    assert (FOLDER / "status.svg").read_text(encoding="utf-8") == status_picture(), "run `make pictures`"


def test_the_picture_of_status_shows_every_run_and_fetches_nothing() -> None:
    drawn = status_picture()
    assert all(run.run_name in drawn for run in RUNS)
    assert "url(" not in drawn.replace("url(#", "")


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*")), ids=lambda file: file.name)
def test_every_picture_is_an_svg_that_a_page_shows(file: Path) -> None:
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "README.md", ROOT / "docs" / "architecture.md")]
    assert any(f"pictures/{file.name})" in page for page in pages)
    assert ET.parse(file).getroot().tag.endswith("svg")


def test_equal_losses_make_equal_pictures() -> None:
    curves = {"a": {1: 2.0, 2: 1.0}}
    assert comparison_picture(curves, kind="svg") == comparison_picture(curves, kind="svg")

"""A release that is taken out of the catalogue comes back by the command, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools import maxtext_release as tool
from xsft.catalog.releases import DEFAULT

FILES = ("release_keys.txt", "release_models.txt", "releases.toml")
VERSION = "0.2.4"
FACTS = {"scan_layers_auto": "true"}
"""The one fact of it that no dump tells."""


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """The catalogue without that release."""
    for name in ("release_keys.txt", "release_models.txt"):
        masks = tool.read_masks((tool.CATALOG / name).read_text())
        (tmp_path / name).write_text(tool.masks_text(tool.without_release(masks, VERSION)))
    toml = (tool.CATALOG / "releases.toml").read_text()
    (tmp_path / "releases.toml").write_text(tool.drop_section(toml, VERSION))
    (tmp_path / "models.toml").write_text((tool.CATALOG / "models.toml").read_text())
    assert not any(VERSION in (tmp_path / name).read_text().replace("0.2.0–0.2.5", "") for name in FILES[:2])
    return tmp_path


@pytest.mark.contract
def test_a_release_that_was_removed_comes_back(catalog: Path) -> None:
    with tool.installed(VERSION) as environment:
        found = tool.dump(environment)
    for name, text in tool.written(VERSION, found, FACTS, catalog).items():
        assert text == (tool.CATALOG / name).read_text(), name
    told = "\n".join(tool.decisions(VERSION, found, catalog))
    assert "keys that came since 0.2.3: " in told
    assert "models without a row in models.toml: none" in told


@pytest.mark.contract
def test_the_default_release_is_written_as_it_is() -> None:
    with tool.installed(DEFAULT) as environment:
        found = tool.dump_default(environment)
    catalog = {f"xsft/catalog/{name}": text for name, text in tool.written(DEFAULT, found, {}, tool.CATALOG).items()}
    texts = catalog | tool.written_as_default(DEFAULT, found)
    assert len(texts) == 9
    for path, text in texts.items():
        assert text == (tool.ROOT / path).read_text(), path
    others = tool.written_as_default("7.8.9", {**found, "unread_keys": ["alone"]})
    assert [path for path, text in others.items() if "7.8.9" not in text] == ["xsft/catalog/model_pins.jsonl"]
    assert others["xsft/catalog/unread_keys.txt"].splitlines()[2:] == ["alone"]


@pytest.mark.parametrize("name", FILES[:2])
def test_a_mask_file_is_read_and_written_whole(name: str) -> None:
    text = (tool.CATALOG / name).read_text()
    assert tool.masks_text(tool.read_masks(text)) == text


@given(st.sampled_from(["0.2.6", "0.2.10", "0.3.0", "1.0.0"]))
def test_a_new_release_is_the_last_one(version: str) -> None:
    masks = tool.read_masks((tool.CATALOG / FILES[0]).read_text())
    at = tool.place_of(version, masks.releases)
    more = tool.with_release(masks, version, at=at, taken={"steps", "brand_new"}, elsewhere={"rl"})
    assert more.releases == (*masks.releases, version)
    assert version in more.rows["steps"][0]
    assert more.rows["brand_new"] == (frozenset({version}), frozenset())
    assert tool.without_release(more, version) == masks


def test_sections_stand_where_they_belong() -> None:
    toml = (tool.CATALOG / "releases.toml").read_text()
    text = tool.section("0.2.6", {"saves_optimizer": "false"}, None)
    assert tool.put_section(toml, "0.2.6", text, before=None).endswith('["0.2.6"]\nsaves_optimizer = false\n')
    assert tool.drop_section(tool.put_section(toml, "0.2.6", text, before=None), "0.2.6").rstrip() == toml.rstrip()

"""A release that is taken out of the catalogue comes back by the command, byte for byte."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.tools import maxtext_release as tool
from xsft.catalog.models import pins
from xsft.catalog.releases import DEFAULT, versions

VERSIONS = versions()
FILES = ("release_keys.txt", "release_models.txt", "release_weights.txt", "releases.toml", "earlier_pins.jsonl")
TOML = (tool.CATALOG / "releases.toml").read_text()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the files that the command reads and writes."""
    shutil.copytree(tool.CATALOG, tmp_path / "xsft" / "catalog", ignore=shutil.ignore_patterns("__pycache__"))
    for path in tool.DEFAULT_PINS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tool.ROOT / path, tmp_path / path)
    return tmp_path


def remove(version: str, catalog: Path) -> None:
    for name in FILES[:3]:
        masks = tool.read_masks((catalog / name).read_text())
        (catalog / name).write_text(tool.masks_text(tool.without_release(masks, version)))
    (catalog / "releases.toml").write_text(tool.drop_section(TOML, version))
    rows = (catalog / "earlier_pins.jsonl").read_text().splitlines(keepends=True)
    (catalog / "earlier_pins.jsonl").write_text("".join(row for row in rows if f'"release":"{version}"' not in row))
    assert version not in tool.read_masks((catalog / FILES[0]).read_text()).releases


@pytest.mark.contract
@pytest.mark.parametrize(
    ("version", "fact", "output"),
    [
        ("0.2.2", [], ["keys that 0.2.2 has and 0.2.1 has not:", " scan_layers_auto=false"]),
        (
            "0.2.4",
            ["scan_layers_auto=true"],
            [" dcn_bandwidth_burst ", "models.toml:\n    none", " scan_layers_auto=true"],
        ),
    ],
)
def test_the_command_restores_a_removed_release_byte_for_byte(
    version: str, fact: list[str], output: list[str], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The package of 0.2.2 imports tensorflow, which the locked environment does not have."""
    catalog = root / "xsft" / "catalog"
    remove(version, catalog)
    assert tool.main([version, *fact], root) == 0
    assert [name for name in FILES if (catalog / name).read_text() != (tool.CATALOG / name).read_text()] == []
    printed = capsys.readouterr().out
    assert all(words in printed for words in output), printed


@pytest.mark.contract
def test_writing_the_default_release_again_changes_no_file(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool.main([DEFAULT, "DEFAULT=yes"], root)
    printed = capsys.readouterr().out
    assert [line.endswith(": unchanged") for line in printed.splitlines()[:11]] == [True] * 11, printed
    assert "decide: other pins of xsft/locks/maxtext.in" in printed


def test_files_of_the_default_release_name_the_new_default(root: Path) -> None:
    found = {"model_ymls": {}, "key_types": [], "unread_keys": ["alone"]}
    texts = tool.written_as_default("7.8.9", found, root)
    pins = ["xsft/catalog/model_pins.jsonl", "xsft/catalog/earlier_pins.jsonl"]
    assert [path for path, text in texts.items() if "7.8.9" not in text] == pins
    assert texts["xsft/catalog/unread_keys.txt"].splitlines()[2:] == ["alone"]


def test_the_settings_of_earlier_releases_are_kept_when_another_becomes_the_default(root: Path) -> None:
    theirs = {"qwen3-30b-a3b-base": {**pins("qwen3-30b-a3b-base"), "rope_max_timescale": 5}}
    ours = {DEFAULT: {"qwen3-30b-a3b-base": pins("qwen3-30b-a3b-base")}}
    text = tool.earlier_pins(tool.CATALOG, ours, default=theirs)
    rows = [json.loads(line) for line in text.splitlines()]
    timescales = {row["release"]: row["qwen3-30b-a3b-base"]["rope_max_timescale"] for row in rows}
    assert (timescales["0.2.3"], timescales["0.2.4"], timescales[DEFAULT]) == (10_000_000, 1_000_000, 1_000_000)


@pytest.mark.parametrize("name", FILES[:3])
def test_a_mask_file_is_written_back_unchanged(name: str) -> None:
    text = (tool.CATALOG / name).read_text()
    assert tool.masks_text(tool.read_masks(text)) == text


@pytest.mark.parametrize("version", VERSIONS)
def test_a_release_that_is_written_again_keeps_its_place_and_its_facts(version: str) -> None:
    facts = tool.own_facts(TOML, version)
    assert facts.keys() == tomllib.loads(TOML)[version].keys() - set(tool.DUMPED)
    found = {
        "keys": ["steps"],
        "elsewhere": [],
        "models": [],
        "weights": {"convert": [], "export": []},
        "nested": {},
        "requires": {},
    }
    again = tool.written(version, found, {}, tool.CATALOG)
    assert tool.own_facts(again["releases.toml"], version) == facts
    assert tuple(tomllib.loads(again["releases.toml"])) == tool.read_masks(again["release_keys.txt"]).releases


KNOWN = ("0.1.0", "tutorial", "0.2.0", "0.2.9", "main-1")


@pytest.mark.parametrize(
    ("version", "position"),
    [("0.2.0", 2), ("0.1.1", 1), ("0.2.1", 3), ("0.2.10", 5), ("0.3", 5), ("0.0.9", 0)],
)
def test_a_release_stands_after_the_older_ones_and_the_newest_at_the_end(version: str, position: int) -> None:
    assert tool.place_of(version, KNOWN) == position


def test_facts_have_the_name_and_type_that_releases_toml_explains() -> None:
    assert tool.facts_as_toml(["positional_yml=false", 'trainer="a.b"', "layout=current"]) == {
        "positional_yml": "false", "trainer": '"a.b"', "layout": '"current"',
    }  # fmt: skip
    for wrong in ("positional_yaml=false", "positional_yml", "positional_yml=no", "nested={}"):
        with pytest.raises(SystemExit, match=rf"'{wrong}' is no fact=value. Facts: layout, trainer, "):
            tool.facts_as_toml([wrong])


def test_a_failed_process_is_reported_with_its_last_lines_and_a_hint() -> None:
    with pytest.raises(SystemExit, match=r"(?s)^2\n.*9\nsh here failed with exit status 3\. Look there"):
        tool.output(("sh", "-c", "seq 9 >&2; exit 3", "here"), dict(os.environ), hint="Look there")
    with pytest.raises(SystemExit, match="Name the release: make maxtext-release VERSION="):
        tool.main([])


def test_a_new_release_is_appended_to_the_masks_and_can_be_removed() -> None:
    masks = tool.read_masks((tool.CATALOG / FILES[0]).read_text())
    place = tool.place_of("9.9.9", masks.releases)
    more = tool.with_release(masks, "9.9.9", at=place, taken={"steps", "brand_new"}, elsewhere={"rl"})
    assert more.releases == (*masks.releases, "9.9.9")
    assert "9.9.9" in more.rows["steps"][0]
    assert more.rows["brand_new"] == (frozenset({"9.9.9"}), frozenset())
    assert tool.without_release(more, "9.9.9") == masks


def test_a_section_of_a_new_release_is_appended_and_can_be_removed() -> None:
    text = tool.section("9.9.9", {"saves_optimizer": "false"}, None)
    more = tool.put_section(TOML, "9.9.9", text, before=None)
    assert more.endswith('["9.9.9"]\nsaves_optimizer = false\n')
    assert tool.drop_section(more, "9.9.9").rstrip() == TOML.rstrip()

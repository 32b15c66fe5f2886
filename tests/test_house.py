"""The house is no larger than tests/house.toml says, and that file only falls."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.tools import house

BOUNDS = tomllib.loads(house.FILE.read_text(encoding="utf-8"))


def test_figures_of_the_house() -> None:
    """If one is exceeded: `python -m tests.tools.house` shows all, and its docstring how a bound is raised."""
    assert house.exceeded(house.figures(), BOUNDS) == {}


def test_modules_that_a_verb_enters() -> None:
    assert house.exceeded(house.figures_of_verbs(), BOUNDS) == {}


@pytest.mark.loopback  # which it is not: it takes as long as the whole house
def test_figures_of_the_tests() -> None:
    assert house.exceeded(house.figures_of_tests(), BOUNDS) == {}


def test_a_bound_rises_only_for_a_reason() -> None:
    """Compare with the newest versions of the file; a checkout without history has none."""
    name = house.FILE.relative_to(house.ROOT)
    log = ["git", "-C", str(house.ROOT), "log", "-20", "--format=%H", "--", str(name)]
    commits = subprocess.run(log, capture_output=True, text=True, check=False).stdout.split()
    for commit in commits:
        show = ["git", "-C", str(house.ROOT), "show", f"{commit}:{name}"]
        earlier = tomllib.loads(subprocess.run(show, capture_output=True, text=True, check=True).stdout)
        bounds = {section: content for section, content in BOUNDS.items() if section != "rise"}
        assert house.unexplained_rises(bounds, earlier, BOUNDS.get("rise", [])) == [], commit


FIGURES = {"house": {"statements": 100}, "rooms": {"spec": 60}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "house.toml"
    written.write_text("# words\n", encoding="utf-8")
    house.write_bounds(FIGURES, why=None, file=written)
    return written


def read(file: Path) -> house.Figures:
    return tomllib.loads(file.read_text(encoding="utf-8"))


def test_written_bounds_fall_and_rooms_are_rounded(file: Path) -> None:
    assert read(file) == {"house": {"statements": 100}, "rooms": {"spec": 100}}
    house.write_bounds({"house": {"statements": 90}, "rooms": {"launch": 40, "spec": 70}}, why=None, file=file)
    assert read(file) == {"house": {"statements": 90}, "rooms": {"launch": 50, "spec": 100}}
    assert file.read_text(encoding="utf-8").startswith("# words\n")


def test_a_rise_needs_a_reason_which_is_kept(file: Path) -> None:
    before = read(file)
    more = {**FIGURES, "house": {"statements": 101}}
    with pytest.raises(SystemExit, match="statements is 101, at most 100"):
        house.write_bounds(more, why=None, file=file)
    house.write_bounds(more, why="the export", file=file)
    after = dict(read(file))
    (rise,) = rises = after.pop("rise")
    assert rise == {"section": "house", "name": "statements", "to": 101, "why": "the export"}
    assert house.unexplained_rises(after, before, rises) == []
    assert house.unexplained_rises(after, before, []) == ["house: statements"]


SOURCE = '''
"""A docstring."""
from xsft.spec import model  # no line of comment
def call(one, other: int) -> int:
    # a comment
    a, b = 1, 2
    found = (1 if one else 2) if other else 3
    return [x for y in found for x in y if x]
class Held:
    item: int
'''


def test_density_of_a_module(tmp_path: Path) -> None:
    path = tmp_path / "xsft" / "planning.py"
    path.parent.mkdir()
    path.write_text(SOURCE, encoding="utf-8")
    module = house.read_module(path, root=tmp_path)
    assert (module.name, module.room, module.comments) == ("xsft.planning", "planning", 1)
    counted = module.density
    assert counted.pop("expression nodes") > 20
    assert counted == {
        "statements": 7,
        "vague names": 2,
        "empty names": 1,
        "conditional expressions": 2,
        "nested conditional expressions": 1,
        "tuple assignments": 1,
        "filtered comprehensions of two loops": 1,
    }
    assert module.imports({"xsft.spec", "xsft.spec.model"}) == {"xsft.spec.model"}


def test_circles_and_storeys() -> None:
    chain = {"verbs": {"runs", "base"}, "runs": {"spec"}, "spec": {"base"}, "base": set()}
    assert (house.circles_in(chain), house.storeys_of(chain)) == ([], 4)
    circle = {**chain, "base": {"runs"}}
    assert house.circles_in(circle) == [["base", "runs", "spec"]]

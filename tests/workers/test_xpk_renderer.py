"""Stand-ins for heavy packages work during imports and refuse use afterwards."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Iterator

import pytest

from xsft.workers.xpk_renderer import (
    PATHWAYS_ONLY,
    Seal,
    StandIn,
    StandInFinder,
    StandInTouchedError,
    packages_to_replace,
)

PACKAGE = "xsft_test_heavy"


@pytest.fixture
def seal() -> Iterator[Seal]:
    seal = Seal()
    finder = StandInFinder(frozenset({PACKAGE}), seal)
    sys.meta_path.insert(0, finder)
    yield seal
    sys.meta_path.remove(finder)
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def test_stand_ins_can_be_imported_called_and_annotated_before_the_seal(seal: Seal) -> None:
    module = importlib.import_module(f"{PACKAGE}.deep.down")
    attribute = module.Client(1, key="x").method().attribute
    assert isinstance(attribute, StandIn)
    assert (attribute | None) is attribute
    assert (None | attribute) is attribute
    assert seal.touched == []


USES: tuple[Callable[[StandIn], object], ...] = (bool, str, repr, len, iter, int, float, list, hash)


@pytest.mark.parametrize("use", USES)
def test_using_a_stand_in_as_a_value_is_refused(use: Callable[[StandIn], object]) -> None:
    seal = Seal()
    with pytest.raises(StandInTouchedError, match="heavy"):
        use(StandIn("heavy", seal))
    assert seal.touched == ["heavy"]


def test_formatting_comparing_and_indexing_a_stand_in_are_refused() -> None:
    stand_in = StandIn("heavy", Seal())
    uses: tuple[Callable[[], object], ...] = (
        lambda: f"{stand_in}",
        lambda: stand_in == 1,
        lambda: stand_in[0],
        lambda: stand_in < 1,
        lambda: 1 in stand_in,
        lambda: stand_in + "x",
        lambda: "x" + stand_in,
        lambda: types.new_class("Child", (stand_in,)),
    )
    for use in uses:
        with pytest.raises(StandInTouchedError):
            use()


def test_every_use_of_a_stand_in_is_refused_and_recorded_after_the_seal(seal: Seal) -> None:
    module = importlib.import_module(PACKAGE)
    client = module.Client
    seal.closed = True
    for touch in (lambda: module.Other, client, lambda: client.field, lambda: __import__(f"{PACKAGE}.more")):
        with pytest.raises(StandInTouchedError):
            touch()
    assert len(seal.touched) == 4


def test_other_packages_can_be_imported_after_the_seal(seal: Seal) -> None:
    seal.closed = True
    importlib.import_module("json.tool")
    assert seal.touched == []


def test_jinja_is_not_replaced_if_one_line_is_for_pathways() -> None:
    create, pathways = ["workload", "create"], ["workload", "create-pathways"]
    assert PATHWAYS_ONLY in packages_to_replace([create, create])
    assert PATHWAYS_ONLY not in packages_to_replace([create, pathways])

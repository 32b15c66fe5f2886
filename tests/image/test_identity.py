"""The same inputs have the same tag, any other have another."""

from __future__ import annotations

import re

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.image.materials import file
from tests.replacing import replace
from xsft.image.identity import code_tag, deps_tag
from xsft.image.model import ContextFile

NAMES = st.text("ab/.é\udcff", min_size=1, max_size=4)
FILES = st.lists(st.tuples(NAMES, st.binary(max_size=4), st.booleans()), max_size=5, unique_by=lambda row: row[0])
ARGS = st.dictionaries(st.sampled_from(["A", "B"]), st.text(max_size=3))


def made(rows: list[tuple[str, bytes, bool]]) -> tuple[ContextFile, ...]:
    return tuple(file(path, content, executable=executable) for path, content, executable in rows)


def deps(files: tuple[ContextFile, ...], args: dict[str, str], base: str = "b", platform: str = "p") -> str:
    return deps_tag(files, dockerfile="Dockerfile", args=args, labels={}, platform=platform, base=base)


@given(FILES, ARGS, st.randoms())
def test_neither_order_nor_where_the_bytes_lie_counts(rows, args, chance) -> None:
    files = list(made(rows))
    shuffled = [replace(f, source="/elsewhere") for f in files]
    chance.shuffle(shuffled)
    assert deps(tuple(files), args) == deps(tuple(shuffled), dict(reversed(args.items())))
    assert re.fullmatch(r"deps-[0-9a-f]{20}", deps(tuple(files), args))


@given(FILES, FILES)
def test_files_that_differ_in_anything_make_another_tag(one, other) -> None:
    assume(sorted(one) != sorted(other))
    assert deps(made(one), {}) != deps(made(other), {})


@given(ARGS, ARGS)
def test_arguments_that_differ_make_another_tag(one, other) -> None:
    assume(one != other)
    assert deps((), one) != deps((), other)


def test_kind_mode_target_base_platform_and_the_layer_below_count() -> None:
    link = ContextFile(path="a", kind="link", target="b")
    tags = {
        deps((), {}),
        deps((), {}, base="c"),
        deps((), {}, platform="q"),
        deps_tag((), dockerfile="Dockerfile", args={}, labels={"a": "b"}, platform="p", base="b"),
        deps((link,), {}),
        deps((replace(link, target="c"),), {}),
        deps((ContextFile(path="a", kind="folder"),), {}),
        deps((file("a", b"x"),), {}),
        deps((file("a", b"x", executable=True),), {}),
        code_tag((), dockerfile="Dockerfile", args={}, platform="p", deps="b"),
        code_tag((), dockerfile="Dockerfile", args={}, platform="p", deps="c"),
        code_tag((), dockerfile="Dockerfile", args={}, platform="q", deps="c"),
        code_tag((), dockerfile="other.Dockerfile", args={}, platform="p", deps="c"),
    }
    assert len(tags) == 13

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.base.errors import Refused
from xsft.spec.yamledit import with_place
from xsft.spec.yamltext import parse_yaml

FILE = """\
# Our clusters.
main:   # the big one
  project: my-project
  pathways: {scratch: gs://b/p}   # shared

# the lab's
lab: {context: "lab"}
last:
  context: x
# the end
"""
PLACE = {"context": "new", "queue": "q"}


def test_new_place_is_appended_and_every_other_byte_stays() -> None:
    assert with_place(FILE, "new", PLACE) == FILE + "new:\n  context: new\n  queue: q\n"


@pytest.mark.parametrize(
    ("name", "lines"), [("main", slice(1, 4)), ("lab", slice(6, 7)), ("last", slice(7, 9))], ids=["main", "lab", "last"]
)
def test_a_replaced_place_takes_the_lines_of_the_old_one(name: str, lines: slice) -> None:
    expected = FILE.splitlines(keepends=True)
    expected[lines] = [f"{name}:\n", "  context: new\n", "  queue: q\n"]
    assert with_place(FILE, name, PLACE) == "".join(expected)


def test_line_ends_byte_order_mark_and_a_missing_last_newline_are_kept() -> None:
    text = "\ufeffmain: {context: a}\r\nlab: {context: b}"
    assert with_place(text, "new", {"context": "c"}) == f"{text}\r\nnew:\r\n  context: c\r\n"
    assert with_place(text, "main", {"context": "c"}) == "\ufeffmain:\r\n  context: c\r\nlab: {context: b}"


def test_place_is_added_to_an_empty_file_and_to_a_file_of_comments() -> None:
    assert with_place("", "a", {"context": "c"}) == "a:\n  context: c\n"
    assert with_place("# places\n", "a", {"context": "c"}) == "# places\na:\n  context: c\n"


@pytest.mark.parametrize("text", ["{main: {context: a}}\n", "main: {context: a}\n...\n"])
def test_file_that_cannot_be_appended_to_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="cannot be added") as caught:
        with_place(text, "new", {"context": "c"})
    assert "new:\n  context: c" in caught.value.fix


NAMES = st.sampled_from(["main", "lab", "a.b", "no", "12", "é"])
VALUES = st.dictionaries(
    st.sampled_from(["context", "queue", "output"]), st.text("abc: #'\"-é1", min_size=1), min_size=1
)
BETWEEN = st.sampled_from(["", "\n", "# a comment\n", "  # indented\n\n"])


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.lists(BETWEEN, min_size=5, max_size=5), NAMES, VALUES)
def test_with_place_changes_only_that_place_in_any_file(
    places: dict[str, dict[str, str]], between: list[str], name: str, values: dict[str, str]
) -> None:
    text = between[0]
    for (one, its), after in zip(places.items(), between[1:], strict=False):
        text = with_place(text, one, its) + after
    changed = with_place(text, name, values)
    assert parse_yaml(changed).data == {**places, name: values}
    for part in between[: len(places) + 1]:
        assert part in changed
    if name not in places:
        assert changed.startswith(text)

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.base.errors import Refused, SpecError
from xsft.spec.yamledit import with_values
from xsft.spec.yamltext import parse_yaml

FILE = """\
# The flagship.
name: flagship   # stays
tpu: {type: v6e-256, num_slices: 2}   # two slices
lora:
train:
  steps: 1000
  per_device_batch_size: 8        # sequences
  # about the length
overrides:
  maxtext:
    attention: flash
# the end
"""


def test_new_value_replaces_the_old_one_and_comments_stay() -> None:
    changed = with_values(FILE, {"train.per_device_batch_size": 4, "tpu.num_slices": 4, "tpu.type": "v6e-128"})
    assert changed == FILE.replace("8    ", "4    ").replace("v6e-256, num_slices: 2", "v6e-128, num_slices: 4")


def test_new_key_is_added_after_the_last_key_of_its_section() -> None:
    changed = with_values(
        FILE, {"train.weight_dtype": "bfloat16", "overrides.maxtext.a.b": True, "parallelism.ici.fsdp": 16}
    )
    expected = FILE.replace("8        # sequences\n", "8        # sequences\n  weight_dtype: bfloat16\n")
    expected = expected.replace("flash\n", "flash\n    a.b: true\nparallelism:\n  ici:\n    fsdp: 16\n")
    assert changed == expected


def test_keys_are_added_to_empty_sections_and_sections_in_braces() -> None:
    changed = with_values(FILE, {"lora.rank": 16, "lora.alpha": 32, "tpu.capacity": "spot"})
    assert "\nlora: {rank: 16, alpha: 32}\n" in changed
    assert "tpu: {type: v6e-256, num_slices: 2, capacity: spot}   # two slices\n" in changed


def test_line_ends_byte_order_mark_and_a_missing_last_newline_are_kept() -> None:
    assert with_values("\ufeffa: 1\r\nb: {c: 2}", {"d.e": "no"}) == "\ufeffa: 1\r\nb: {c: 2}\r\nd:\r\n  e: 'no'\r\n"


def test_impossible_edits_are_refused() -> None:
    with pytest.raises(Refused, match="without changing other lines"):
        with_values(FILE, {"train": 1})
    with pytest.raises(SpecError, match="single value"):
        with_values(FILE, {"name.x": 1})


VALUES = st.one_of(st.integers(0, 99), st.booleans(), st.sampled_from(["bfloat16", "a b", "x: y", "#", "(a|b)/c", "é"]))
TEXTS = st.sampled_from([FILE, "a: 1", "{a: 1}", "train:\n    steps: 1\n\n\n# c\nb: {}\n", "tpu:\n- 1\n"])
PATHS = st.sampled_from(["a", "b.c", "train.steps", "train.x", "tpu.type", "overrides.maxtext.p.q", "lora.rank"])


@given(TEXTS, st.dictionaries(PATHS, VALUES, max_size=4))
def test_any_edit_sets_the_values_and_keeps_every_comment(text: str, values: dict[str, int | bool | str]) -> None:
    try:
        changed = with_values(text, values)
    except (Refused, SpecError):
        return
    comments = [line.partition("#")[2] for line in text.splitlines() if "#" in line]
    assert all(f"#{comment}" in changed for comment in comments)
    for path, value in values.items():
        parsed: Any = parse_yaml(changed).data
        for part in ("overrides", "maxtext", "p.q") if path.startswith("over") else path.split("."):
            parsed = parsed[part]
        assert parsed == value

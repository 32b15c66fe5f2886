"""The plan of the layers: each package is in one layer, and a changed row of the lock changes one layer."""

from __future__ import annotations

import random
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.images.tiny import BUILD, install_script

LOCK = (BUILD / "requirements.txt").read_text(encoding="utf-8")
WHOLE_MB = 681
"""The packages as one layer, compressed: measured when there was only one."""
MB = {
    "libtpu": 215.6,
    "jaxlib": 90.8,
    "pyarrow": 57.0,
    "scipy": 36.5,
    "xprof": 33.0,
    "tensorstore": 22.5,
    "numpy": 16.3,
    "maxtext": 13.9,
    "transformers": 13.4,
    "pandas": 12.4,
    "pillow": 7.3,
    "sympy": 6.4,
    "uvloop": 4.7,
    "hf-xet": 4.4,
    "array-record": 3.9,
    "tokenizers": 3.4,
    "jax": 3.3,
    "tokamax": 2.8,
    "pydantic-core": 2.3,
    "sentencepiece": 1.7,
}
"""Compressed: libtpu's wheel as its index states it, the others' installed files without byte code. All that is not
here, byte code included, is taken for the last layer's. Pushed by Docker 20.10 to a registry, byte code included, the
three are 311.8, 250.5 and 118.0 MB: a change saves 368, 430 or 562.
"""
SAVED_MB = 305


INSTALL = install_script()
PLANNED = INSTALL.layers_of(LOCK)


def rows_of(lock: str) -> list[str]:
    return re.split(r"^(?=[A-Za-z0-9])", re.sub(r"^#.*\n", "", lock, flags=re.MULTILINE), flags=re.MULTILINE)[1:]


def names(rows: str) -> list[str]:
    return [row.partition("==")[0] for row in rows_of(rows)]


ROWS = rows_of(LOCK)


def test_each_package_of_the_lock_is_in_one_layer_with_its_hashes() -> None:
    assert sorted(row for layer in PLANNED for row in rows_of(layer)) == sorted(ROWS)
    assert len(ROWS) == LOCK.count("==") > 100
    assert all("--hash=sha256:" in row for row in ROWS)
    assert sum(layer.count("--hash=") for layer in PLANNED) == LOCK.count("--hash=")


def test_every_name_of_the_plan_is_in_the_lock_and_stands_there_once() -> None:
    planned = [name for layer in INSTALL.LAYERS for name in layer]
    assert len(set(planned)) == len(planned)
    assert [name for name in planned if name not in names(LOCK)] == []


@settings(max_examples=10)
@given(st.randoms(use_true_random=False))
def test_equal_rows_give_equal_layers_in_any_order(shuffle: random.Random) -> None:
    rows = [*ROWS]
    shuffle.shuffle(rows)
    shuffled = [sorted(names(layer)) for layer in INSTALL.layers_of("".join(rows))]
    assert shuffled == [sorted(names(layer)) for layer in PLANNED]


def test_a_comment_changes_no_layer() -> None:
    assert INSTALL.layers_of(f"# made later\n{LOCK}") == PLANNED


def test_a_changed_row_changes_one_layer_and_a_host_keeps_the_others() -> None:
    for row in ROWS:
        changed = LOCK.replace(row, row.replace("==", "==99."))
        pairs = zip(PLANNED, INSTALL.layers_of(changed), strict=True)
        pulled = [number for number, (before, after) in enumerate(pairs) if before != after]
        assert len(pulled) == 1, row
        assert WHOLE_MB - SIZES_MB[pulled[0]] >= SAVED_MB, row


def sizes_mb() -> list[float]:
    sizes = [sum(MB.get(name, 0.0) for name in names(layer)) for layer in PLANNED]
    return [*sizes[:-1], WHOLE_MB - sum(sizes[:-1])]


SIZES_MB = sizes_mb()


def test_the_dockerfile_installs_each_layer_of_the_plan_from_its_own_rows_alone() -> None:
    text = (BUILD / "Dockerfile").read_text(encoding="utf-8")
    steps = [step for step in text.split("\nRUN ") if "install.py layer" in step]
    assert len(steps) == len(INSTALL.LAYERS) + 1
    for number, step in enumerate(steps, start=1):
        assert f"from=installer,source=/xsft/{number},target=/run/xsft " in step
        assert step.count("source=") == 1

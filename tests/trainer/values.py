"""Values for MaxText's command line: everything a workload's `overrides.maxtext` can hold, the hard ones named."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from xsft.spec.base import Value

_WORDS = r"""
on OFF Yes n true null Null ~ none None nan inf Infinity .inf -.INF .nan
1 0123 1e5 1_000 0x1F 0b1 0o7 12:30 1:2:3.4 2026-11-21 +1 -1 .5 1. 1e-5
- -- --- ... ?x a: :a a:b << = a=b a==b a#b @a `a %a &a *a !a | > ' " it's \ \n
{ } [ ] [a] a,b , $HOME $(X) $$ ??? é 日本語 😀
gs://my-bucket/ultrachat/train_sft-*.parquet decoder/(a|b)/x decoder/.* a.b.c lora.rank /tmp/x ~/x ./x
""".split()  # noqa: SIM905 (a line a word otherwise)

_SENTENCES = ("", " ", "- x", "--- x", "? x", ": x", "a: b", "# x", "a #b", "!!str a", 'say "x"', "{a: b}", "[a, b]")

_HIDDEN = "\x01 \x1b \x7f \x80 \x85 \x9f \xa0 \u2028 \u2029 \u200b \ufeff \ufffe \uffff \U0010ffff".split(" ")  # noqa: SIM905

_BROKEN_LINES = ("\n", "a\nb", "a\n\nb ", " a", "a ", "\ta", "\r\n", "\ufeffa", "a\x85b", "{{ x }}")

_NUMBERS = (True, False, 0, -1, 2**70, 0.0, -0.5, 3e-6, 1e-300, 1.5e22, 1e16, 123456789.125, math.inf, -math.inf)

_LISTS: tuple[list[bool | int | float | str], ...] = (
    [],
    ["messages"],
    ["question", "answer"],
    [1, 2],
    [True, False],
    [0.5, 1e-9],
    [*_WORDS],
    [*_SENTENCES],
    [*_BROKEN_LINES],
)

HARD: tuple[Value, ...] = (None, *_NUMBERS, *_WORDS, *_SENTENCES, *_HIDDEN, *_BROKEN_LINES, *_LISTS)
r"""Not among them: `${…}`, which OmegaConf would look up and a check refuses, and `\???`, its way to write `???`."""

PIECES = st.sampled_from([*"-:?#,[]{}&*!|>'\"%@`=~<.+_\\/ \n\t$01ex", *_WORDS, *_SENTENCES, *_HIDDEN])
# MaxText's process cannot be handed a NUL or half a surrogate pair: encode_command refuses them.
ANY = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
TEXT = (st.lists(PIECES | ANY, max_size=6).map("".join) | st.text(ANY, max_size=12)).filter(
    lambda text: "${" not in text and not text.endswith("\\???")
)
SCALARS = st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
VALUES = SCALARS | st.lists(SCALARS, max_size=4)


def same(meant: Value, read: Any) -> bool:
    """Equal and of one type. A whole float is written as people do (`per_device_batch_size=1`): its value counts."""
    if isinstance(meant, list):
        return isinstance(read, list) and len(meant) == len(read) and all(map(same, meant, read))
    if isinstance(meant, float) and meant.is_integer():
        return type(read) in (int, float) and bool(read == meant)
    return type(read) is type(meant) and bool(read == meant)

"""Judge an exported model by its headers, its configuration, and the answers of the workers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from xsft.export.inputs import ExportDtype
from xsft.export.safetensors import TensorHeader

DTYPE_NAMES: Mapping[ExportDtype, str] = {"bfloat16": "BF16", "float32": "F32"}
SHOWN = 5
"""Tensors named in a message."""
ALL_BELOW_BYTES = 20 * 10**9
"""Below this size of the checkpoint the values of all tensors are compared."""
SAMPLE = 64
"""Slices that are compared of a larger one, chosen by chance."""
LOGITS_BOUND = 1e-4
"""Largest difference allowed, relative to the greatest logit, in float32. Measured: 2.5e-6 of the root mean square."""
HEAD = "lm_head.weight"


class LogitsVerdict(Struct, frozen=True, kw_only=True):
    """How the logits of the checkpoint in MaxText and of the export in the engine compare, both in float32."""

    greatest_difference: float
    greatest_logit: float
    positions: int
    """Token positions compared."""
    same_argmax: int
    """Positions at which both choose the same token."""
    engine: str
    """Name and version."""

    @property
    def relative(self) -> float:
        return self.greatest_difference / self.greatest_logit if self.greatest_logit else float("inf")

    @property
    def agrees(self) -> bool:
        return self.relative <= LOGITS_BOUND and self.same_argmax == self.positions


class Verification(Struct, frozen=True, kw_only=True):
    """What was compared, and what was wrong."""

    problems: tuple[str, ...] = ()
    """Empty: the export is what the checkpoint holds."""
    tensors: int = 0
    """In the safetensors headers."""
    compared: int = 0
    """Tensors of which every value was compared."""
    sampled: bool = False
    """Whether only a part was compared, because the model is large."""
    trained: int | None = None
    """Tensors that the training may change; None if the base was not compared."""
    changed: int | None = None
    """Of the compared ones, those that differ from the base."""
    base: str = ""
    """Why the base was not compared; empty if it was."""
    logits: LogitsVerdict | None = None
    logits_skipped: str = ""
    """Why logits were not compared."""

    @property
    def passed(self) -> bool:
        return not self.problems


def header_problems(
    headers: Mapping[str, TensorHeader], *, expected: Mapping[str, tuple[int, ...]], dtype: ExportDtype
) -> Iterator[str]:
    """Yield what names, shapes and data types are wrong. `expected`: by MaxText's mapping for the model."""
    missing = [name for name in expected if name not in headers]
    extra = [name for name in headers if name not in expected]
    both = [name for name in expected if name in headers]
    shapes = [
        f"{name} {list(headers[name].shape)} instead of {list(expected[name])}"
        for name in both
        if headers[name].shape != tuple(expected[name])
    ]
    dtypes = [f"{name} {headers[name].dtype}" for name in headers if headers[name].dtype != DTYPE_NAMES[dtype]]
    for what, names in (
        ("tensors are missing", missing),
        ("tensors are not the model's", extra),
        ("tensors have another shape", shapes),
        (f"tensors are not {dtype}", dtypes),
    ):
        if names:
            yield f"{len(names)} {what}: {_shown(names)}"


def config_problems(config: Mapping[str, Any], *, names: Mapping[str, object]) -> Iterator[str]:
    """Yield a contradiction between config.json and the tensors about the output layer: a reader would make up the one,
    or ignore the other. Where config.json is silent, the default of the model's type counts."""
    tied, has_head = config.get("tie_word_embeddings"), any(name.endswith(HEAD) for name in names)
    if tied is True and has_head:
        yield f"config.json ties the output layer to the embedding, but there is {HEAD}"
    if tied is False and not has_head:
        yield f"config.json says tie_word_embeddings: false, but there is no {HEAD}"


def values_problems(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the worker found wrong in the values."""
    wrong = [f"{one['name']} ({one['differing']} of {one['values']} values)" for one in answer["wrong"]]
    if wrong:
        yield f"{len(wrong)} tensors differ from the checkpoint: {_shown(wrong)}"
    if unread := answer["unread"]:
        yield f"{len(unread)} tensors could not be compared: {_shown(unread)}"
    if unexported := answer["unexported"]:
        yield f"{len(unexported)} arrays of the checkpoint were not exported: {_shown(unexported)}"
    if not answer["compared"]:
        yield "no tensor was compared"


def base_problems(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield a problem if no compared tensor differs from the base: nothing was trained, or the base was exported."""
    if answer["changed"] == 0:
        yield "every tensor equals the model that the training started from: nothing was learnt"


def logits_problems(verdict: LogitsVerdict | None) -> Iterator[str]:
    if verdict is None or verdict.agrees:
        return
    yield (
        f"logits differ from MaxText's by {verdict.relative:.2g} of the greatest logit (bound {LOGITS_BOUND:g});"
        f" {verdict.same_argmax} of {verdict.positions} positions choose the same token"
    )


def _shown(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f", and {more} more" if more > 0 else "")

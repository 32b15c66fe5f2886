"""The verification of an exported model, and the rule by which its logits must agree. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

ALL_BELOW_BYTES = 20 * 10**9
"""Below this size of the checkpoint the values of all tensors are compared."""
SAMPLE = 64
"""Slices that are compared of a larger one, chosen by chance."""
LOGITS_BOUND = 1e-4
"""Largest difference allowed, relative to the greatest logit, in float32. Measured: 2.5e-6 of the root mean square."""


class LogitsVerdict(Struct, frozen=True, kw_only=True):
    """A comparison of the checkpoint's logits in MaxText with the export's in the engine, both in float32."""

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
    """The checks that were done, and the errors that they found."""

    problems: tuple[str, ...] = ()
    """Errors; empty if the export equals the checkpoint."""
    tensors: int = 0
    """In the safetensors headers."""
    compared: int = 0
    """Tensors of which every value was compared."""
    sampled: bool = False
    """Whether only a part was compared, because the model is large."""
    trained: int | None = None
    """Tensors that the training may change; None if the base was not compared."""
    changed: int | None = None
    """Compared tensors that differ from the base."""
    base: str = ""
    """Why the base was not compared; empty if it was."""
    config: str = ""
    """Why config.json is the exporter's; empty if it is the source model's."""
    logits: LogitsVerdict | None = None
    logits_skipped: str = ""
    """Why logits were not compared."""

    @property
    def passed(self) -> bool:
        return not self.problems


def logits_problems(verdict: LogitsVerdict) -> Iterator[str]:
    if verdict.agrees:
        return
    yield (
        f"logits differ from MaxText's by {verdict.relative:.2g} of the greatest logit (bound {LOGITS_BOUND:g});"
        f" {verdict.same_argmax} of {verdict.positions} positions choose the same token"
    )


def verification_text(verified: Verification | None) -> str:
    """Return the verification as text for people."""
    if verified is None:
        return "its record contains no verification"
    sampled = " (chosen by chance)" if verified.sampled else ""
    base = (
        f"{verified.changed} of {verified.trained} trained ones differ from the base"
        if verified.trained
        else verified.base
    )
    logits = verified.logits
    agree = f"; logits agree to {logits.relative:.1e} of the greatest" if logits else ""
    skipped = f"; {verified.logits_skipped}" if verified.logits_skipped else ""
    config = f"; config.json is MaxText's: {verified.config}" if verified.config else ""
    compared = f"{verified.compared} of {verified.tensors} tensors{sampled} equal the checkpoint"
    return f"{compared}; {base}{agree}{skipped}{config}"

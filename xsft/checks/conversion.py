"""Check the Hugging Face weights that model.hf names: readable, not quantised, and of the tokenizer that trains them.
Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from xsft.base.problems import Problem, error, note, warning
from xsft.catalog.hf_config import computed_fields
from xsft.catalog.weights import model_type
from xsft.checks.facts import Facts
from xsft.checks.model import ONE_MORE
from xsft.spec.base import Keys
from xsft.spec.resolve import Run

UNKNOWN = "access, the revision, whether it has safetensors, whether they are quantised, and its vocabulary"
"""Facts that only the hub's answer gives."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Yield the problems that the files or the hub's answer show; a note if the hub did not answer."""
    if run.conversion is None:
        return
    repo = run.conversion.source.repo
    if run.conversion.sized and run.release.layout == "legacy":
        message = (
            f"The converter of MaxText {run.release.version} takes the sizes of {run.spec.model.name}, not the "
            "workload's: it would scale the weights wrongly, without an error."
        )
        fix = "Use MaxText 0.2.0 or newer (image.maxtext), or remove the sizes from overrides.maxtext."
        yield error("weights-sizes-legacy", "overrides.maxtext", message, fix)
    if facts.source is None:
        return
    yield from facts.source.problems
    if facts.source.unanswered:
        message = f"{repo} was not looked up on the hub: {facts.source.unanswered.rstrip('.')}."
        yield note("hub-weights-unknown", "model.hf.repo", message, f"Unknown: {UNKNOWN}.", kind="unread")
    if facts.source.quantized:
        message = (
            f"{repo} holds quantised weights ({facts.source.quantized}); MaxText's to_maxtext would cast them without "
            "their scales."
        )
        fix = (
            "Use a repository with bfloat16 weights, or dequantise these first (DeepSeek: MaxText's "
            "deepseek_dequantize)."
        )
        yield error("weights-quantized", "model.hf.repo", message, fix)
    yield from _check_vocabulary(run, facts)
    yield from _check_config(run, keys, facts.source.fields)


def _check_vocabulary(run: Run, facts: Facts) -> Iterator[Problem]:
    """Check that the embedding has a row for every token: a higher token id is read as another row, without an
    error."""
    tokens = facts.tokenizer.vocabulary if facts.tokenizer else None
    rows = facts.source.vocabulary if facts.source else None
    model = run.model
    overridden = "vocab_size" in run.spec.overrides.maxtext
    if model and not overridden and model.tokenizer_family not in ONE_MORE and rows and rows > model.vocab:
        message = (
            f"The weights have {rows:,} rows in their embedding, and {model.name} {model.vocab:,}: tokens were added "
            "to the weights. to_maxtext fails on these tokens, or leaves them out."
        )
        fix = "Use weights without added tokens, or with tokens in rows that the model does not use."
        yield warning("weights-vocabulary", "model.hf.repo", message, fix)
    if tokens is not None and rows is not None and tokens > rows:
        message = f"{run.tokenizer} has tokens up to id {tokens - 1:,}, and the model's embedding has {rows:,} rows."
        fix = "Use the tokenizer that came with the weights."
        yield error("tokenizer-vocabulary", "model.tokenizer", message, fix)


def _check_config(run: Run, keys: Keys, config: Mapping[str, Any]) -> Iterator[Problem]:
    """Compare config.json with MaxText's configuration: to_maxtext does not read it, and fails only if the sizes
    differ."""
    if not config or run.conversion is None or run.model is None or not run.model.built_in:
        return
    computed = computed_fields(run.spec.model.name, keys, version=run.release.version)
    computed["model_type"] = model_type(run.spec.model.name) or config.get("model_type")
    differing = ", ".join(
        f"its {name} is {_text(config[name])}, and the model's {_text(value)}"
        for name, value in computed.items()
        if name in config and not _equal(config[name], value)
    )
    if differing:
        message = (
            f"The config.json of {run.conversion.source.repo} differs from MaxText's {run.model.name}: {differing}."
            " The converter does not read config.json, so it would not report this."
        )
        fix = "Set MaxText's key in overrides.maxtext, with override_model_config: true, or use other weights."
        yield warning("weights-config", "model.hf.repo", message, fix)


def _equal(stated: Any, computed: Any) -> bool:
    """Return whether two values are one to a model: null and 0 are."""
    if isinstance(stated, int | float) and isinstance(computed, int | float):
        return math.isclose(stated, computed)
    return (stated or 0) == (computed or 0)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)

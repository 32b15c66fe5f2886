"""The model type by which an inference engine recognises an exported folder."""

from __future__ import annotations

import pytest

from xsft.catalog.models import model, names
from xsft.catalog.weights import model_type


def test_every_exportable_model_except_mistral_has_a_type() -> None:
    """MaxText 0.2.5 converts mistral-7b, and has no configuration to export it with."""
    unknown = [name for name in names() if model(name).hf_id and model(name).built_in and model_type(name) is None]
    assert unknown == ["mistral-7b"]


@pytest.mark.parametrize(
    ("name", "type_"), [("qwen3-0.6b", "qwen3"), ("qwen3-30b-a3b-base", "qwen3_moe"), ("default", None)]
)
def test_model_type_follows_the_longest_prefix(name: str, type_: str | None) -> None:
    assert model_type(name) == type_

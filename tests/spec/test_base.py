"""Forms of values that a pattern alone cannot describe."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from xsft.spec.base import StoragePath

STORAGE = TypeAdapter(StoragePath)


@pytest.mark.parametrize("value", ["gs://my-bucket", "gs://my-bucket/a b/c-*.parquet", "./runs", "json", "owner/name"])
def test_storage_accepts_bucket_addresses_and_paths(value: str) -> None:
    assert STORAGE.validate_python(value) == value


@pytest.mark.parametrize("value", ["gs://B_/x", "gs://bucket with space/x", "gs://", "gs://ab", "", "a\nb"])
def test_storage_refuses_invalid_bucket_names_and_empty_text(value: str) -> None:
    with pytest.raises(ValidationError):
        STORAGE.validate_python(value)

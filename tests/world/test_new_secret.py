from __future__ import annotations

from pathlib import Path

import pytest

from xsft.base.errors import UsageError
from xsft.world.new_secret import SecretRequest, create_secret

INVALID = {
    "Secret's name": SecretRequest(name="hf_token", key="token", context="lab"),
    "key": SecretRequest(name="hf-token", key="a b", context="lab"),
    "namespace": SecretRequest(name="hf-token", key="token", context="lab", namespace="Team"),
    "Place nowhere was not found": SecretRequest(name="hf-token", key="token", place="nowhere"),
    "No cluster given": SecretRequest(name="hf-token", key="token"),
}


@pytest.mark.parametrize("words", INVALID)
def test_no_value_is_read_for_an_invalid_secret(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)

    def read() -> bytes:
        pytest.fail("the value was read")

    with pytest.raises(UsageError, match=words):
        create_secret(INVALID[words], read=read)

from __future__ import annotations

import io
import sys
from typing import Any

import pytest
import yaml

from xsft.machine.streams import ScreenedStream
from xsft.verbs.plan_text import yaml_text


def test_a_printed_manifest_parses_back_to_the_same_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the screen escapes is read back: `xsft plan --manifest | kubectl create -f -`."""
    acting = "a\x1b[2J\x9b\u202eb\x85\u200f"
    manifest: dict[str, Any] = {"env": [{"name": "A", "value": acting}], acting: "<｜▁pad▁｜>"}
    under = io.StringIO()
    monkeypatch.setattr(sys, "stdout", ScreenedStream(under))
    sys.stdout.write(yaml_text([manifest]))
    assert list(yaml.safe_load_all(under.getvalue())) == [manifest]
    assert not {*"\x1b\x9b\u202e\u200f"} & {*under.getvalue()}
    assert "<｜▁pad▁｜>" in under.getvalue()

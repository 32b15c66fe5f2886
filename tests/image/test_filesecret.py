"""How long a file is looked at; what is seen in it is in tests/effects/test_image_context.py."""

from __future__ import annotations

import time

from xsft.image.filesecret import secret_in

BEGIN = b"-----BEGIN PRIVATE" + b" KEY-----\n"


def test_a_text_that_almost_is_a_key_is_soon_told_from_one() -> None:
    """Each of these has many ways to be read as the headers of a key."""
    started = time.process_time()
    for almost in (b"a: " * 10_000, b"a: b\n" * 10_000, b"a: \\r\\n" * 10_000, b" \n" * 10_000, BEGIN * 1000):
        assert secret_in(BEGIN + almost + b"!") == ""
    assert time.process_time() - started < 5

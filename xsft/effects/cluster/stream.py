"""An answer of a Kubernetes API server that is read as it arrives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from urllib3.exceptions import HTTPError

from xsft.reading.network_words import meaning

PART = 16384
"""Maximum bytes read at once; each part counts as activity for the waiting thread."""


class Stream:
    """An answer that is read as it arrives."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def lines(self) -> Iterator[bytes]:
        """Yield whole lines as they arrive. Raises OSError if the connection breaks or is silent for too long; a
        partial line is dropped then.
        """
        rest = b""
        try:
            for part in self._response.stream(PART):
                *whole, rest = (rest + part).split(b"\n")
                yield from whole
        except (HTTPError, ValueError, AttributeError) as broken:  # the latter two if it was interrupted
            raise OSError(meaning(f"{type(broken).__name__} {broken}")) from None
        if rest:
            yield rest

    def interrupt(self) -> None:
        """Interrupt the reading thread, which gets an OSError. Call this from another thread. (Closing would wait for
        the reader.)
        """
        with suppress(OSError, ValueError, AttributeError, RuntimeError):  # it may have ended or been closed
            self._response.shutdown()

    def close(self) -> None:
        """Close the stream. Call this from the reading thread."""
        self._response.close()

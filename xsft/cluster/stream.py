"""An answer of a Kubernetes API server that is read as it arrives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError

from xsft.base.network_words import meaning

MAX_LINE_BYTES = 2**20
"""A longer line is passed on in parts."""


class Stream:
    """An answer that is read as it arrives."""

    def __init__(self, response: BaseHTTPResponse) -> None:
        self._response = response

    def lines(self) -> Iterator[bytes]:
        """Yield whole lines as they arrive. Raises OSError if the connection breaks or is silent for too long; a
        partial line is dropped then.
        """
        torn = b""
        try:
            for part in self._response.stream(decode_content=True):
                *lines, torn = (torn + part).split(b"\n")
                yield from lines
                if len(torn) > MAX_LINE_BYTES:
                    yield torn
                    torn = b""
            if torn:
                yield torn
        except (HTTPError, ValueError, AttributeError) as broken:  # the latter two if it was interrupted
            raise OSError(meaning(f"{type(broken).__name__} {broken}")) from None

    def interrupt(self) -> None:
        """Interrupt the reading thread, which gets an OSError. Call this from another thread. (Closing would wait for
        the reader.)
        """
        with suppress(OSError, ValueError, AttributeError, RuntimeError):  # it may have ended or been closed
            self._response.shutdown()

    def close(self) -> None:
        """Close the stream. Call this from the reading thread."""
        self._response.close()

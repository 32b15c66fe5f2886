"""The faults of a server: the requests it received, and what happens to some of them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Action = Literal[
    "answer",
    "cut-before", "cut-after",
    "reset-before", "reset-after",
    "hang-before", "hang-after",
    "short", "broken-json", "broken-gzip",
    "stream-cut", "stream-end", "stream-gone",
]  # fmt: skip
"""answer: `code` and `message`, or with code 0 as usual. cut: the connection is closed without an answer, reset: with
RST, hang: nothing comes; before or after the server did what was asked. short: less comes than Content-Length says;
broken-json, broken-gzip: the half of it, as if that were all. stream-…: a stream is passed on for `after_lines` or
`after_bytes`; then it is cut, ends, or says 410 Gone.
"""


@dataclass
class Seen:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    """Parsed JSON; None where it is none."""
    target: str = ""
    """Path and query as they were sent."""
    raw: bytes = b""
    """The body as it was sent."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def line(self) -> str:
        """Return the text for patterns: "METHOD /path?a=b&c=d"."""
        return f"{self}?" + "&".join(f"{key}={value}" for key, value in self.query.items())


@dataclass
class Fault:
    """A fault of requests that match: of `times` of them after the first `skip`."""

    on: str
    """A pattern for `Seen.line`."""
    action: Action = "answer"
    code: int = 500
    message: str = "injected"
    retry_after: str | None = None
    delay_s: float = 0.0
    """Before anything else."""
    do: Callable[[], object] | None = None
    """What happens in the world meanwhile, before the request is served."""
    then: Callable[[], object] | None = None
    """And after it was served, before its answer."""
    after_lines: int | None = None
    after_bytes: int | None = None
    times: int = 1
    skip: int = 0


@dataclass
class Faults:
    """The faults still to come."""

    left: list[Fault] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, request: Seen) -> Fault | None:
        with self.lock:
            for fault in self.left:
                if fault.times > 0 and re.search(fault.on, request.line):
                    if fault.skip > 0:
                        fault.skip -= 1
                        continue
                    fault.times -= 1
                    return fault
        return None

"""A caller that dies between two writes that last: files of a record, and objects on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from xsft.cluster import cluster, reads
from xsft.machine.objects import GcsObjects, LocalObjects


class Killed(BaseException):
    """Raised to end the caller at once: like SIGKILL, nothing catches it."""


@contextmanager
def dying(*, after: int) -> Iterator[None]:
    """The caller dies before its write number `after`, counted from 0; an object that is there is no write."""
    countdown = count(after, -1)

    def once(write: Callable[..., Any]) -> Callable[..., Any]:
        def written(*args: Any, **kwargs: Any) -> Any:
            if next(countdown) <= 0:
                raise Killed
            return write(*args, **kwargs)

        return written

    with pytest.MonkeyPatch.context() as patched:
        for owner in (cluster, reads, LocalObjects, GcsObjects):
            patched.setattr(owner, "create", once(owner.create))
        yield

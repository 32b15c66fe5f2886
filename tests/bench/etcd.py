"""etcd of a test cluster, past its API server: values as they are stored, in and out, in thousands.

etcd@v3.6.5 serves its gRPC API as JSON on the same port (api/etcdserverpb/rpc.proto); keys and values are base64.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import urllib3

Pair = tuple[bytes, bytes]
"""Key and value."""

AT_ONCE = 64
"""Writes in one transaction: etcd takes 128, and 1.5 MiB; a pod has 10 KB."""
WRITERS = 4
PAGE = 200


class Etcd:
    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/v3/kv/"
        self._pool = urllib3.PoolManager(maxsize=WRITERS, retries=False, timeout=60)

    def under(self, prefix: str) -> Iterator[Pair]:
        """Yield all pairs whose key has the prefix, by key."""
        start = prefix.encode()
        while True:
            query = {"key": _packed(start), "range_end": _packed(_after(prefix.encode())), "limit": PAGE}
            answer = self._ask("range", query)
            for pair in answer.get("kvs", ()):
                yield base64.b64decode(pair["key"]), base64.b64decode(pair["value"])
                start = base64.b64decode(pair["key"]) + b"\0"
            if not answer.get("more"):
                return

    def count(self, prefix: str) -> int:
        query = {"key": _packed(prefix.encode()), "range_end": _packed(_after(prefix.encode())), "count_only": True}
        return int(self._ask("range", query).get("count", 0))

    def put_all(self, pairs: Iterable[Pair]) -> int:
        """Store the pairs and return their number."""
        written = 0
        with ThreadPoolExecutor(WRITERS) as pool:
            batches = _batches(pairs)
            # a few at a time: all of them are a gigabyte
            for several in iter(lambda: tuple(itertools.islice(batches, WRITERS * 2)), ()):
                written += sum(pool.map(self._put, several))
        return written

    def close(self) -> None:
        self._pool.clear()

    def _put(self, batch: tuple[Pair, ...]) -> int:
        writes = [{"request_put": {"key": _packed(key), "value": _packed(value)}} for key, value in batch]
        self._ask("txn", {"success": writes})
        return len(batch)

    def _ask(self, what: str, body: Any) -> Any:
        answer = self._pool.request("POST", self._url + what, body=json.dumps(body).encode())
        if answer.status != 200:
            raise RuntimeError(f"etcd said {answer.status} to {what}: {answer.data[:300]!r}")
        return json.loads(answer.data)


def _batches(pairs: Iterable[Pair]) -> Iterator[tuple[Pair, ...]]:
    remaining = iter(pairs)
    return iter(lambda: tuple(itertools.islice(remaining, AT_ONCE)), ())


def _packed(part: bytes) -> str:
    return base64.b64encode(part).decode("ascii")


def _after(prefix: bytes) -> bytes:
    """The first key that does not begin so."""
    return prefix[:-1] + bytes([prefix[-1] + 1])

"""Reads and writes the API server's objects in etcd, past the API server.

etcd@v3.6.5 serves its gRPC API as JSON on the same port (api/etcdserverpb/rpc.proto); keys are base64.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import urllib3


def forget(prefix: str, *, port: int) -> int:
    """Delete all whose key begins so; how many there were. Who watches is told, and no finalizer is asked: 128 pods go
    in half a CPU second, through the API in five.

    One by one: of deletions in one revision the API server's watchers hear only some.
    """
    after = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    with urllib3.PoolManager(retries=False, timeout=60) as pool:
        url = f"http://127.0.0.1:{port}/v3/kv/"
        every = {"key": _packed(prefix), "range_end": _packed(after), "keys_only": True}
        kvs = _ask(pool, f"{url}range", every).get("kvs", ())
        for pair in kvs:
            _ask(pool, f"{url}deleterange", {"key": pair["key"]})
    return len(kvs)


def _ask(pool: urllib3.PoolManager, url: str, body: Any) -> Any:
    answer = pool.request("POST", url, body=json.dumps(body))
    if answer.status != 200:
        raise RuntimeError(f"etcd said {answer.status} to {url}: {answer.data[:300]!r}")
    return answer.json()


def _packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")

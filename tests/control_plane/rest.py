"""The cluster's API, plainly: a method, a path, JSON. Not xsft's own client, which is what these tests are about."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import urllib3

PARALLEL = 12
BUSY, PAUSES_S = frozenset({429, 504}), (1.0, 2.0, 4.0, 8.0)
"""What a server on a busy machine answers that did not come to it in time, and when it is asked again."""
DONE_BEFORE = frozenset({("POST", 409), ("DELETE", 404)})
"""What it answers then if the first request was done all the same."""
MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The server said no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Rest:
    """Requests with one identity; connections are kept, and threads may share it."""

    def __init__(self, *, server: str, ca: Path, token: str) -> None:
        self._server = server
        self._headers = {"Authorization": f"Bearer {token}"}
        self._pool = urllib3.PoolManager(ca_certs=str(ca), maxsize=PARALLEL, retries=False, timeout=120)

    def __call__(self, method: str, path: str, body: Any = None, *, content: str = "application/json") -> Any:
        """The answer's JSON. Raises ApiError for a status from 400, urllib3's errors where no answer came."""
        text = self.text(method, path, body=body, content=content)
        return json.loads(text) if text else None

    def text(
        self, method: str, path: str, *, body: Any = None, content: str = "application/json", accept: str = "*/*"
    ) -> str:
        ask = partial(
            self._pool.request,
            method,
            self._server + path,
            body=None if body is None else json.dumps(body),
            headers={**self._headers, "Content-Type": content, "Accept": accept},
        )
        answer = ask()
        for pause_s in PAUSES_S:
            if answer.status not in BUSY:
                break
            time.sleep(pause_s)
            answer = ask()
            if (method, answer.status) in DONE_BEFORE:
                return ""
        text = answer.data.decode("utf-8", "replace")
        if answer.status >= 400:
            raise ApiError(answer.status, _message(text))
        return text

    def rows(self, path: str) -> list[list[Any]]:
        """A list as kubectl prints it: the cells of each row. A hundredth of the objects' size, for both sides."""
        table = json.loads(self.text("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io"))
        return [row["cells"] for row in table["rows"]]

    def create_all(self, objects: Iterable[tuple[str, Any]]) -> None:
        """POST each body to its path, several at once."""
        each(lambda created: self("POST", *created), objects)

    def close(self) -> None:
        self._pool.clear()


def each(do: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """`do` with every item, several at once; raises the first error."""
    with ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(do, items))


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:500]

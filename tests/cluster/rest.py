"""The cluster's API, plainly: a method, a path, JSON. Not xsft's own client, which is what these tests are about."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import urllib3

PARALLEL = 12
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
        self._pool = urllib3.PoolManager(ca_certs=str(ca), maxsize=PARALLEL, retries=False, timeout=60)

    def __call__(self, method: str, path: str, body: Any = None, *, content: str = "application/json") -> Any:
        """The answer's JSON. Raises ApiError for a status from 400, urllib3's errors where no answer came."""
        text = self.text(method, path, body=body, content=content)
        return json.loads(text) if text else None

    def text(
        self, method: str, path: str, *, body: Any = None, content: str = "application/json", accept: str = "*/*"
    ) -> str:
        answer = self._pool.request(
            method,
            self._server + path,
            body=None if body is None else json.dumps(body),
            headers={**self._headers, "Content-Type": content, "Accept": accept},
        )
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
        each(lambda one: self("POST", *one), objects)

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

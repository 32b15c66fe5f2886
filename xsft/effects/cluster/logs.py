"""The log of one container: what it said so far, and what it says from now on."""

from __future__ import annotations

from msgspec import Struct

from xsft.effects.cluster import resources as kinds
from xsft.effects.cluster.api import Api
from xsft.effects.cluster.errors import Ask
from xsft.effects.cluster.http import ANYTHING, Lost, Stream
from xsft.errors import Unreachable
from xsft.trainers.progress import Said, said

MAX_BYTES = 16 * 1024 * 1024
"""Of one log that is read at once, from its beginning; a tail is far less."""
BUSY_OR_BROKEN = 500
NOT_STARTED = 400
"""The container waits to start, or there was none before it. source: kubernetes@v1.35 pkg/registry/core/pod/rest/log.go
and pkg/kubelet/kubelet_pods.go validateContainerLogStatus."""


class LogAsk(Struct, frozen=True, kw_only=True):
    namespace: str
    pod: str
    container: str | None = None
    since: str | None = None
    """RFC 3339; the kubelet knows whole seconds only, and gives all lines of that second."""
    tail: int | None = None
    """So many of its last lines."""
    previous: bool = False
    """Of the container before the last restart in place."""

    def query(self, *, follow: str = "false") -> dict[str, str]:
        asked = {"container": self.container, "sinceTime": self.since, "tailLines": self.tail}
        given = {key: str(value) for key, value in asked.items() if value is not None}
        return {"timestamps": "true", "follow": follow, "previous": str(self.previous).lower(), **given}


def read_log(api: Api, wanted: LogAsk) -> tuple[Said, ...] | None:
    """What it has said; None where there is no such pod or its container has not begun. Raises Unreachable."""
    ask = _ask(wanted)
    query = {**wanted.query(), **({} if wanted.tail is not None else {"limitBytes": str(MAX_BYTES)})}
    reply = api.question(ask, query=query, accept=ANYTHING, read=b"".join)
    if reply.status in (404, NOT_STARTED):
        return None
    if not reply.ok:
        raise api.failed(reply, ask)
    *lines, torn = reply.body.split(b"\n")  # as a stream's: a progress bar's returns are part of its line
    return tuple(said(line.decode("utf-8", "replace")) for line in (*lines, *((torn,) if torn else ())))


def open_log(api: Api, wanted: LogAsk, *, read_timeout_s: float, follow: bool = True) -> Stream | Unreachable | None:
    """One try; without `follow` up to what it has said by now, of any length. Unreachable is handed back where trying
    again may help; None: no such pod, or it has not begun.

    Raises Unreachable where it will not (login, permission).
    """
    ask = _ask(wanted)
    answer = api.opened(ask, query=wanted.query(follow=str(follow).lower()), read_timeout_s=read_timeout_s)
    if isinstance(answer, Stream):
        return answer
    if isinstance(answer, Lost):
        failed = Unreachable(answer.reason, fix=answer.fix, id=answer.id)
        if answer.again:
            return failed
        raise failed
    if answer.status in (404, NOT_STARTED):
        return None
    failed_for_good = api.failed(answer, ask)
    if isinstance(failed_for_good, Unreachable) and (answer.status == 429 or answer.status >= BUSY_OR_BROKEN):
        return failed_for_good
    raise failed_for_good


def _ask(wanted: LogAsk) -> Ask:
    return Ask(verb="get", resource=kinds.POD_LOGS, namespace=wanted.namespace, name=wanted.pod)

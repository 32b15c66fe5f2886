"""The log of one container: its lines so far, and its lines from now on."""

from __future__ import annotations

from msgspec import Struct

from xsft.base.errors import Unreachable
from xsft.cluster import resources as kinds
from xsft.cluster.answers import LostAnswer
from xsft.cluster.api import Api
from xsft.cluster.errors import ApiRequest
from xsft.cluster.http import ANYTHING, Stream
from xsft.trainer.progress import LoggedLine, parse_logged_line

MAX_BYTES = 16 * 1024 * 1024
"""Limit for one log that is read at once from its beginning; a tail is far smaller."""
BUSY_OR_BROKEN = 500
NOT_STARTED = 400
"""Status if the container has not started, or there was none before it. source: kubernetes@v1.35
pkg/registry/core/pod/rest/log.go and pkg/kubelet/kubelet_pods.go validateContainerLogStatus.
"""


class ContainerLogRequest(Struct, frozen=True, kw_only=True):
    namespace: str
    pod: str
    container: str | None = None
    since: str | None = None
    """RFC 3339; the kubelet uses whole seconds only, and returns all lines of that second."""
    tail: int | None = None
    """Number of last lines."""
    previous: bool = False
    """Read the log of the container before the last restart in place."""

    def query(self, *, follow: str = "false") -> dict[str, str]:
        options = {"container": self.container, "sinceTime": self.since, "tailLines": self.tail}
        given = {key: str(value) for key, value in options.items() if value is not None}
        return {"timestamps": "true", "follow": follow, "previous": str(self.previous).lower(), **given}


def read_log(api: Api, wanted: ContainerLogRequest) -> tuple[LoggedLine, ...] | None:
    """Return the lines so far; None if there is no such pod or its container has not started. Raises Unreachable."""
    ask = _log_request(wanted)
    query = {**wanted.query(), **({} if wanted.tail is not None else {"limitBytes": str(MAX_BYTES)})}
    reply = api.question(ask, query=query, accept=ANYTHING, read=bytes)
    if reply.status in (404, NOT_STARTED):
        return None
    if not reply.ok:
        raise api.failed(reply, ask)
    *lines, torn = reply.body.split(
        b"\n"
    )  # split as streams are: a progress bar's carriage returns are part of its line
    return tuple(parse_logged_line(line.decode("utf-8", "replace")) for line in (*lines, *((torn,) if torn else ())))


def open_log(
    api: Api, wanted: ContainerLogRequest, *, read_timeout_s: float, follow: bool = True
) -> Stream | LostAnswer | Unreachable | None:
    """Open the log, with one try; without `follow` up to its current end, of any length. Returns Lost without an
    answer, and Unreachable for an error of the cluster, if a retry may help; None if there is no such pod or it has not
    started. Raises Unreachable if a retry cannot help (login, permission).
    """
    ask = _log_request(wanted)
    answer = api.opened(ask, query=wanted.query(follow=str(follow).lower()), read_timeout_s=read_timeout_s)
    if isinstance(answer, Stream):
        return answer
    if isinstance(answer, LostAnswer):
        if answer.passes:
            return answer
        raise answer.failed()
    if answer.status in (404, NOT_STARTED):
        return None
    failed_for_good = api.failed(answer, ask)
    if isinstance(failed_for_good, Unreachable) and (answer.status == 429 or answer.status >= BUSY_OR_BROKEN):
        return failed_for_good
    raise failed_for_good


def _log_request(wanted: ContainerLogRequest) -> ApiRequest:
    return ApiRequest(verb="get", resource=kinds.POD_LOGS, namespace=wanted.namespace, name=wanted.pod)

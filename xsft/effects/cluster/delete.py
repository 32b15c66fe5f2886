"""The one deletion in xsft: exactly the object whose UID was read, never another that took its name since."""

from __future__ import annotations

from typing import Any, Literal

from xsft.effects.cluster.api import BUSY, Api, Waits
from xsft.effects.cluster.errors import Ask, Reply
from xsft.effects.cluster.http import Lost
from xsft.effects.cluster.resources import Resource
from xsft.errors import Unknown, Unreachable

Deleted = Literal["deleted", "gone", "other"]
"""`gone`: it was not there any more. `other`: another object has the name now, and stays."""


def delete(api: Api, resource: Resource, *, name: str, namespace: str, uid: str) -> Deleted:
    """Its pods go with it, in the background. Sent again where no answer came: the UID makes that harmless.

    Raises Unknown where it was sent and neither its answer nor the object could be read, Unreachable where it was not
    deleted.
    """
    ask = Ask(verb="delete", resource=resource, namespace=namespace, name=name)
    waits, sent = Waits(api.patience), False
    while True:
        answer = api.once(ask, body=_options(uid))
        if isinstance(answer, Reply):
            done = _done(answer, sent=sent)
            if done:
                return done
            if answer.status == 409:
                return _conflicting(api, ask, answer, uid=uid)
        sent = sent or _may_have_happened(answer)
        if not _again(answer) or not waits.again(answer.retry_after_s if isinstance(answer, Reply) else None):
            return _settled(api, ask, answer, uid=uid) if sent else _failed(api, ask, answer)


def _options(uid: str) -> dict[str, Any]:
    """source: kubernetes.io/docs/reference/kubernetes-api/common-definitions/delete-options"""
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid},
        "propagationPolicy": "Background",
    }


def _done(reply: Reply, *, sent: bool) -> Deleted | None:
    """`sent`: an earlier try may have deleted it, so that it is not there now."""
    if reply.ok:
        return "deleted"
    if reply.status == 404 and not reply.not_served and not reply.missing_namespace:
        return "deleted" if sent else "gone"
    return "deleted" if reply.status == 409 and sent else None


def _may_have_happened(answer: Reply | Lost) -> bool:
    return answer.sent if isinstance(answer, Lost) else answer.status >= 500


def _again(answer: Reply | Lost) -> bool:
    return answer.again if isinstance(answer, Lost) else answer.status in BUSY


def _settled(api: Api, ask: Ask, answer: Reply | Lost, *, uid: str) -> Deleted:
    """What stands under the name tells."""
    try:
        there = api.get(ask.resource, name=ask.name or "", namespace=ask.namespace)
    except Unreachable as failed:
        raise _unclear(ask, answer, failed.message) from None
    if there is None or there["metadata"].get("uid") != uid or there["metadata"].get("deletionTimestamp"):
        return "deleted"
    raise _unclear(ask, answer, "it is still there, and the request may still be under way")


def _conflicting(api: Api, ask: Ask, answer: Reply, *, uid: str) -> Deleted:
    """The UID is another one, or the server could not do it just now: which of them, the object tells."""
    try:
        there = api.get(ask.resource, name=ask.name or "", namespace=ask.namespace)
    except Unreachable as failed:
        raise _unclear(ask, answer, failed.message) from None
    if there is None:
        return "gone"
    if there["metadata"].get("uid") != uid:
        return "other"
    raise Unreachable(
        f"The cluster did not {ask.what}: HTTP 409 {answer.message}",
        fix="Run the same command again: nothing was deleted.",
        id="cluster-error",
    )


def _unclear(ask: Ask, answer: Reply | Lost, why: str) -> Unknown:
    said = answer.reason if isinstance(answer, Lost) else f"HTTP {answer.status} {answer.message}"
    return Unknown(
        f"The request to {ask.what} was sent and its outcome is not known: {said} {why}",
        fix="Run the same command again when the cluster answers: only the object of that UID is ever deleted.",
        id="delete-unclear",
    )


def _failed(api: Api, ask: Ask, answer: Reply | Lost) -> Deleted:
    if isinstance(answer, Lost):
        raise Unreachable(f"{answer.reason} Nothing was deleted.", fix=answer.fix, id=answer.id)
    raise api.failed(answer, ask)

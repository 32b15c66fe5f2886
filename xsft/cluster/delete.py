"""The only deletion in xsft: exactly the object whose UID was read, never another one that has taken its name since."""

from __future__ import annotations

from typing import Any, Literal

from xsft.base.errors import Unknown, Unreachable
from xsft.cluster.answers import LostAnswer, Reply
from xsft.cluster.api import Api
from xsft.cluster.errors import ApiRequest
from xsft.cluster.resources import Resource

DeleteOutcome = Literal["deleted", "gone", "other", "ended"]
"""`gone`: it no longer existed. `other`: another object has the name now, and is kept. `ended`: so had the run, and its
object is kept."""


def delete(api: Api, resource: Resource, *, name: str, namespace: str, uid: str) -> DeleteOutcome:
    """Delete the object; its pods are deleted in the background. It is sent again if there is no answer, which the UID
    makes harmless. Raises Unknown if it was sent and neither its answer nor the object could be read, Unreachable if it
    was not deleted.
    """
    ask = ApiRequest(verb="delete", resource=resource, namespace=namespace, name=name)
    api = api.for_question()
    retries, sent = api.patience.retries(api.deadline), False
    while True:
        answer = api.once(ask, body=_options(uid))
        if isinstance(answer, Reply):
            done = _outcome_of_reply(answer, sent=sent)
            if done:
                return done
            if answer.status == 409:
                return (
                    _outcome_by_object(api, ask, answer, uid=uid)
                    if sent
                    else _outcome_of_conflict(api, ask, answer, uid=uid)
                )
        sent = sent or _may_have_happened(answer)
        if not answer.passes or not retries.again(answer.retry_after_s):
            return _outcome_by_object(api, ask, answer, uid=uid) if sent else _raise_error(api, ask, answer)


def _options(uid: str) -> dict[str, Any]:
    """source: kubernetes.io/docs/reference/kubernetes-api/common-definitions/delete-options"""
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid},
        "propagationPolicy": "Background",
    }


def _outcome_of_reply(reply: Reply, *, sent: bool) -> DeleteOutcome | None:
    """Return the outcome that the reply shows, or None. `sent`: an earlier try may have deleted the object, so that it
    is not found now.
    """
    if reply.ok:
        return "deleted"
    if reply.status == 404 and not reply.not_served and not reply.missing_namespace:
        return "deleted" if sent else "gone"
    return None


def _may_have_happened(answer: Reply | LostAnswer) -> bool:
    return answer.sent if isinstance(answer, LostAnswer) else answer.status >= 500


def _outcome_by_object(api: Api, ask: ApiRequest, answer: Reply | LostAnswer, *, uid: str) -> DeleteOutcome:
    """Return the outcome by the object that has the name now."""
    try:
        there = api.last_look().get(ask.resource, name=ask.name or "", namespace=ask.namespace)
    except Unreachable as failed:
        raise _unknown_deletion(ask, answer, failed.message) from None
    if there is None or there["metadata"].get("uid") != uid or there["metadata"].get("deletionTimestamp"):
        return "deleted"
    raise _unknown_deletion(ask, answer, "it still exists, and the deletion may still be in progress")


def _outcome_of_conflict(api: Api, ask: ApiRequest, answer: Reply, *, uid: str) -> DeleteOutcome:
    """Return the outcome of a conflict: either the UID is another one, or the server could not do it just now. The
    object shows which.
    """
    try:
        there = api.last_look().get(ask.resource, name=ask.name or "", namespace=ask.namespace)
    except Unreachable as failed:
        raise _unknown_deletion(ask, answer, failed.message) from None
    if there is None:
        return "gone"
    if there["metadata"].get("uid") != uid:
        return "other"
    raise Unreachable(
        f"The cluster did not {ask.what}: HTTP 409 {answer.message}",
        fix="Run the same command again: nothing was deleted.",
        id="cluster-error",
    )


def _unknown_deletion(ask: ApiRequest, answer: Reply | LostAnswer, why: str) -> Unknown:
    return Unknown(
        f"The request to {ask.what} was sent and its result is unknown: {answer.reason} {why}",
        fix="Run the same command again when the cluster answers: only the object with that UID is deleted.",
        id="delete-unclear",
    )


def _raise_error(api: Api, ask: ApiRequest, answer: Reply | LostAnswer) -> DeleteOutcome:
    if isinstance(answer, LostAnswer):
        raise answer.failed(what="Nothing was deleted.")
    raise api.failed(answer, ask)

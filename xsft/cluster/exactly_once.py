"""Creates an object exactly once, and deletes one by its UID, whatever happens to the answer.

If the answer to a create is lost, the create is not simply sent again: the object is looked up first. `managedFields`
shows which submission created it: the field manager contains a mark of this submission, so that the object itself stays
exactly as planned. Only one object can have a name, so even a create that arrives late starts no second run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from msgspec import Struct

from xsft.base.errors import EnvironmentMissing, SpecError, Unknown, Unreachable, XsftError
from xsft.base.lenient import JsonObject
from xsft.base.secrets import HIDDEN
from xsft.cluster.answers import LostAnswer, Reply, read_named
from xsft.cluster.api import Api
from xsft.cluster.errors import ApiRequest
from xsft.cluster.resources import Resource
from xsft.machine.paths import random_hex

MANAGER = "xsft"
STRICT = {"fieldValidation": "Strict"}
"""Without it the server drops unknown fields and reports that only in a header."""
DRY_RUN = {**STRICT, "dryRun": "All"}


class CreatedObject(Struct, frozen=True, kw_only=True):
    """This call created the object, even if the answer was lost."""

    object: JsonObject


class ExistingObject(Struct, frozen=True, kw_only=True):
    """The name was taken, by an earlier call or by another user; this call changed nothing."""

    object: JsonObject


def create(api: Api, resource: Resource, body: JsonObject, *, mark: str | None) -> CreatedObject | ExistingObject:
    """Create the object. Raises Unknown if the create was sent, and neither its answer nor the object could be read."""
    manager = f"{MANAGER}-{mark or random_hex(8)}"
    metadata = body["metadata"]
    ask = ApiRequest(verb="create", resource=resource, namespace=metadata.get("namespace"), name=metadata["name"])
    api = api.for_question()
    retries = api.patience.retries(api.deadline)
    lost = unanswered = False
    while True:
        answer = api.once(ask, body=body, query={**STRICT, "fieldManager": manager}, read=read_named)
        if isinstance(answer, Reply) and answer.ok:
            return CreatedObject(object=answer.body)
        found = _object_of_name(api, ask, manager, answer)
        if found is not None:
            return found
        unanswered = unanswered or (isinstance(answer, LostAnswer) and answer.sent)
        if not _may_be_sent_again(answer) or not retries.again(answer.retry_after_s):
            failed = _not_created(api, ask, answer)
            refused = is_refusal(failed)
            if (unanswered and (refused or isinstance(failed, Unreachable))) or (lost and refused):
                raise _unknown_outcome(api, ask, answer, failed)
            raise failed
        lost = lost or (_is_open(answer) and not _is_conflict(answer))


def is_refusal(failed: XsftError) -> bool:
    """Return whether a `create` that failed this way was refused or never sent, so that it certainly created
    nothing.
    """
    return isinstance(failed, Unreachable | EnvironmentMissing) and failed.again != "helps"


def without_values(failed: XsftError, values: tuple[str, ...]) -> XsftError:
    """Return the same error with these values removed, even if the cluster quoted them."""
    if isinstance(failed, SpecError):
        return SpecError(tuple(replace(p, message=_hide_values(p.message, values)) for p in failed.problems))
    return type(failed)(_hide_values(failed.message, values), fix=failed.fix, id=failed.problem_id, again=failed.again)


def _object_of_name(
    api: Api, ask: ApiRequest, manager: str, answer: Reply | LostAnswer
) -> CreatedObject | ExistingObject | None:
    """Return what has the name, if the answer leaves that open; None if no object has it."""
    if not _is_open(answer):
        return None
    try:
        there = api.last_look().get(ask.resource, name=ask.name or "", namespace=ask.namespace)
    except Unreachable as failed:
        raise _unknown_outcome(api, ask, answer, failed) from None
    if there is None:
        return None
    ours = any(m.get("manager") == manager for m in there["metadata"].get("managedFields") or ())
    return CreatedObject(object=there) if ours else ExistingObject(object=there)


def _is_open(answer: Reply | LostAnswer) -> bool:
    """Return whether an object may have the name now: after a lost answer, a server error, or a conflict."""
    return answer.sent if isinstance(answer, LostAnswer) else answer.status == 409 or answer.status >= 500


def _is_conflict(answer: Reply | LostAnswer) -> bool:
    return isinstance(answer, Reply) and answer.status == 409


def _may_be_sent_again(answer: Reply | LostAnswer) -> bool:
    """Return whether the create may be sent again once no object has the name: if it was not executed, or conflicted
    with an object that is gone by now.
    """
    return answer.passes or _is_conflict(answer)


def _unknown_outcome(api: Api, ask: ApiRequest, answer: Reply | LostAnswer, failed: XsftError) -> Unknown:
    namespace = f" -n {ask.namespace}" if ask.namespace else ""
    look = f"kubectl --context {api.access.context}{namespace} get {ask.resource.full_name} {ask.name}"
    last = f" Last answer: {failed.message}" if failed.message not in answer.reason else ""
    return Unknown(
        f"The request to {ask.what} was sent and its result is unknown: {answer.reason}{last}",
        fix=f"Look whether it exists: {look}. Run the same command again when the cluster answers: it finds what was"
        " created, or creates it.",
        id="create-unclear",
    )


def _not_created(api: Api, ask: ApiRequest, answer: Reply | LostAnswer) -> XsftError:
    """Return the error if nothing was created."""
    return answer.failed(what="Nothing was created.") if isinstance(answer, LostAnswer) else api.failed(answer, ask)


def _hide_values(text: str, values: tuple[str, ...]) -> str:
    for value in sorted(filter(None, values), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text


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

"""Creates an object exactly once, and deletes one by its UID, whatever happens to the answer.

If the answer to a create is lost, the create is not simply sent again: the object is looked up first. `managedFields`
shows which submission created it: the field manager contains a mark of this submission, so that the object itself stays
exactly as planned. Only one object can have a name, so even a create that arrives late starts no second run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

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
    unclear = unanswered = False
    while True:
        answer = api.once(ask, body=body, query={**STRICT, "fieldManager": manager}, read=read_named)
        if isinstance(answer, Reply) and answer.ok:
            return CreatedObject(object=answer.body)
        outcome = _object_of_name(api, ask, manager, answer)
        if outcome is not None:
            return outcome
        unanswered = unanswered or (isinstance(answer, LostAnswer) and answer.sent)
        # It may be sent again if it was not executed, or conflicted with an object that is gone by now.
        if not (answer.passes or _is_conflict(answer)) or not retries.again(answer.retry_after_s):
            if isinstance(answer, LostAnswer):
                failed: XsftError = answer.failed(what="Nothing was created.")
            else:
                failed = api.failed(answer, ask)
            refused = is_refusal(failed)
            if (unanswered and (refused or isinstance(failed, Unreachable))) or (unclear and refused):
                raise _unknown_outcome(api, ask, answer, failed)
            raise failed
        unclear = unclear or (_is_open(answer) and not _is_conflict(answer))


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
        stored = api.last_look().get(ask.resource, name=ask.name or "", namespace=ask.namespace)
    except Unreachable as failed:
        raise _unknown_outcome(api, ask, answer, failed) from None
    if stored is None:
        return None
    ours = any(fields.get("manager") == manager for fields in stored["metadata"].get("managedFields") or ())
    return CreatedObject(object=stored) if ours else ExistingObject(object=stored)


def _is_open(answer: Reply | LostAnswer) -> bool:
    """Return whether an object may have the name now: after a lost answer, a server error, or a conflict."""
    return answer.sent if isinstance(answer, LostAnswer) else answer.status == 409 or answer.status >= 500


def _is_conflict(answer: Reply | LostAnswer) -> bool:
    return isinstance(answer, Reply) and answer.status == 409


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

    source: kubernetes.io/docs/reference/kubernetes-api/common-definitions/delete-options
    """
    ask = ApiRequest(verb="delete", resource=resource, namespace=namespace, name=name)
    api = api.for_question()
    retries = api.patience.retries(api.deadline)
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid},
        "propagationPolicy": "Background",
    }
    may_be_deleted = False
    while True:
        answer = api.once(ask, body=options)
        if isinstance(answer, Reply):
            if answer.ok:
                return "deleted"
            if answer.status == 404 and not answer.not_served and not answer.missing_namespace:
                return "deleted" if may_be_deleted else "gone"
            if answer.status == 409:
                return _outcome_by_object(api, ask, answer, uid=uid, may_be_deleted=may_be_deleted)
            may_be_deleted = may_be_deleted or answer.status >= 500
        else:
            may_be_deleted = may_be_deleted or answer.sent
        if answer.passes and retries.again(answer.retry_after_s):
            continue
        if may_be_deleted:
            return _outcome_by_object(api, ask, answer, uid=uid, may_be_deleted=True)
        if isinstance(answer, LostAnswer):
            raise answer.failed(what="Nothing was deleted.")
        raise api.failed(answer, ask)


def _outcome_by_object(
    api: Api, ask: ApiRequest, answer: Reply | LostAnswer, *, uid: str, may_be_deleted: bool
) -> DeleteOutcome:
    """Return the outcome by the object that has the name now. `may_be_deleted`: an earlier try may have deleted the
    object; else the answer is a conflict: either the UID is another one, or the server could not do it just now.
    """
    try:
        stored = api.last_look().get(ask.resource, name=ask.name or "", namespace=ask.namespace)
    except Unreachable as failed:
        raise _unknown_deletion(ask, answer, failed.message) from None
    if stored is None:
        return "deleted" if may_be_deleted else "gone"
    if stored["metadata"].get("uid") != uid:
        return "deleted" if may_be_deleted else "other"
    if not may_be_deleted:
        raise Unreachable(
            f"The cluster did not {ask.what}: {answer.reason}",
            fix="Run the same command again: nothing was deleted.",
            id="cluster-error",
        )
    if stored["metadata"].get("deletionTimestamp"):
        return "deleted"
    raise _unknown_deletion(ask, answer, "it still exists, and the deletion may still be in progress")


def _unknown_deletion(ask: ApiRequest, answer: Reply | LostAnswer, why: str) -> Unknown:
    return Unknown(
        f"The request to {ask.what} was sent and its result is unknown: {answer.reason} {why}",
        fix="Run the same command again when the cluster answers: only the object with that UID is deleted.",
        id="delete-unclear",
    )

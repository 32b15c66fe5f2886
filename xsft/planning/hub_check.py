"""Queries the Hugging Face hub for `xsft check` and `plan`: with the user's own login, and a short time limit.

source: huggingface_hub@2.4.0 hf_api.py [dataset_info, auth_check]; datasets@5.2.0 utils/_dataset_viewer.py
[get_exported_dataset_infos] and huggingface.co/docs/dataset-viewer/info. Tested against a stand-in on loopback only.
"""

from __future__ import annotations

from collections.abc import Mapping
from re import fullmatch
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace
from requests import RequestException

from xsft.base.acceptance import accept_late
from xsft.base.errors import Unreachable
from xsft.base.forms import HUB_ID
from xsft.base.lenient import mapping, rows
from xsft.base.problems import Problem, error
from xsft.data.facts import HubDataFacts
from xsft.machine.http_session import Session
from xsft.machine.parallel import call_within
from xsft.machine.paths import hub_token
from xsft.machine.process import own_environment
from xsft.planning.hub import ENDPOINT, HubAnswer, endpoint_of, hub_session, read_json, read_repository, read_token
from xsft.spec.conversion_inputs import BRANCH, ConversionSource
from xsft.spec.facts import SourceFacts
from xsft.spec.resolve import Run

DEADLINE_S = 5.0
"""Maximum time for all requests about one repository."""


def check_data(path: str) -> HubDataFacts:
    """Return the hub's facts of a data set; `unanswered` states why there are none. Raises nothing."""
    env, token = _own_login()
    try:
        return call_within(DEADLINE_S, lambda: read_data(path, env=env, token=token))
    except Unreachable as failed:
        return HubDataFacts(unanswered=failed.message)


def check_weights(source: ConversionSource) -> SourceFacts:
    """Return the hub's facts about a conversion; `unanswered` states why it did not answer. Raises nothing.

    The commit is left out: it decides the folder of the converted checkpoint, and only a conversion fixes it.
    """
    env, token = _own_login()
    try:
        found = call_within(DEADLINE_S, lambda: read_repository(source, env=env, token=token))
    except Unreachable as failed:
        return SourceFacts(unanswered=failed.message)
    return replace(found, commit=None, weights_bytes=None)


def tokenizer_access(name: str, revision: str | None) -> Problem | None:
    """Return why this login cannot read a tokenizer's repository; None if it can. `revision` of None: its default
    branch. Raises Unreachable if the hub does not answer in time.
    """
    env, token = _own_login()
    return call_within(DEADLINE_S, lambda: _tokenizer_access(name, revision, env=env, token=token))


def tokenizer_of_pods(run: Run) -> tuple[Problem, ...]:
    """Return why pods without a token cannot read the tokenizer's repository; nothing if they can, if they have a
    token, or if the hub does not answer. Raises nothing.
    """
    name = run.tokenizer
    if name is None or run.spec.on_this_machine or run.spec.secrets.hf_token or not fullmatch(HUB_ID, name):
        return ()
    try:
        refused = call_within(
            DEADLINE_S, lambda: _tokenizer_access(name, run.tokenizer_revision, env=own_environment(), token=None)
        )
    except Unreachable:
        return ()
    if refused is None:
        return ()
    message = f"{refused.message.partition(':')[0]}, and the pods have no token of the hub: every host would end."
    fix = "Check the spelling. Write secrets.hf_token: {secret: NAME, key: KEY}, of an account that may read it."
    problem = error("tokenizer-unreadable", "model.tokenizer", message, fix)
    return accept_late((problem,), run.spec.checks)


def _own_login() -> tuple[Mapping[str, str], str | None]:
    """Return the user's environment variables and token."""
    env = own_environment()
    return env, read_token(hub_token(env).get("HF_TOKEN_PATH"))


def _tokenizer_access(name: str, revision: str | None, *, env: Mapping[str, str], token: str | None) -> Problem | None:
    endpoint = endpoint_of(env)
    with hub_session(token) as session:
        try:
            info = read_json(session, f"{endpoint}/api/models/{name}/revision/{quote(revision or BRANCH, safe='')}")
            if info.get("gated"):
                read_json(session, f"{endpoint}/api/models/{name}/auth-check")
        except HubAnswer as told:
            return _no_tokenizer(name, told)
        except RequestException as failed:
            message = f"{endpoint} did not answer about {name}: {type(failed).__name__}."
            raise Unreachable(message, fix="Check the network and HF_ENDPOINT.") from failed
        except ValueError:  # the answer has no body
            return None
    return None


def _no_tokenizer(name: str, answer: HubAnswer) -> Problem | None:
    if answer.status not in (401, 403, 404):
        return None
    if answer.code == "RevisionNotFound":
        return error(
            "hf-revision-unknown",
            "model.tokenizer_revision",
            f"{name} has no such revision on the hub.",
            "Use a branch, a tag or a commit of the repository.",
        )
    gated = answer.code == "GatedRepo" or answer.status == 403
    what = "is gated" if gated else "does not exist on the hub, or is private"
    message = f"{name} {what}: your own login, or an anonymous reader, may not read it."
    fix = "Check the spelling. If it is private, log in with `hf auth login`."
    if gated:
        fix = f"Accept its terms at {ENDPOINT}/{name}, and log in: `hf auth login`."
    return error("tokenizer-unreadable", "model.tokenizer", message, fix)


def read_data(path: str, *, env: Mapping[str, str], token: str | None, viewer: str | None = None) -> HubDataFacts:
    """Return the hub's facts of a data set. Raises Unreachable if the hub does not answer. `viewer`: address of the
    dataset viewer; None: the hub's own. `token` is sent only to these two.
    """
    endpoint = endpoint_of(env)
    viewer = viewer or endpoint.replace("://", "://datasets-server.")
    with hub_session(token) as session:
        try:
            info = read_json(session, f"{endpoint}/api/datasets/{path}")
            if info.get("gated") and (refused := _access(session, endpoint, path)):
                return refused
            found = _read_configurations(session, f"{viewer}/info?dataset={quote(path, safe='')}")
            return replace(found, default=_default_of(info), script=_script_of(info, path))
        except HubAnswer as told:
            if told.status >= 500 or told.status == 429:
                raise Unreachable(f"The hub answers {told} for {path}.", fix="Try again in a minute.") from None
            return HubDataFacts(access="gated" if told.code == "GatedRepo" else "unknown")
        except (RequestException, ValueError) as failed:
            message = f"{endpoint} did not answer about {path}: {type(failed).__name__}."
            raise Unreachable(message, fix="Check the network and HF_ENDPOINT.") from failed


def _access(session: Session, endpoint: str, path: str) -> HubDataFacts | None:
    """Return the facts of a gated data set that this login, or an anonymous request, may not read; None if it may."""
    try:
        read_json(session, f"{endpoint}/api/datasets/{path}/auth-check")
    except HubAnswer as told:
        if told.status in (401, 403):
            return HubDataFacts(access="gated")
        raise
    except ValueError:  # the answer has no body
        return None
    return None


def _read_configurations(session: Session, url: str) -> HubDataFacts:
    """Return the configurations, as the dataset viewer computed them; without any if it has none, or only a part."""
    try:
        found = read_json(session, url)
    except (HubAnswer, RequestException, ValueError):
        return HubDataFacts()
    if found.get("partial") is not False or found.get("pending") or found.get("failed"):
        return HubDataFacts()
    configurations = mapping(found, "dataset_info")
    return HubDataFacts(
        splits={name: tuple(mapping(one, "splits")) for name, one in configurations.items()},
        columns={name: tuple(mapping(one, "features")) for name, one in configurations.items()},
    )


def _default_of(info: Mapping[str, Any]) -> str | None:
    """Return the configuration that the data set's card marks with `default: true`. source: datasets@5.2.0
    utils/metadata.py MetadataConfigs.get_default_config_name."""
    for configuration in rows(mapping(info, "cardData").get("configs")):
        if configuration.get("default") is True:
            return str(configuration.get("config_name"))
    return None


def _script_of(info: Mapping[str, Any], path: str) -> str:
    """Return the file that datasets would run as a loading script. source: datasets@5.2.0 load.py
    [dataset_module_factory]."""
    name = f"{path.rpartition('/')[2]}.py"
    files = [file.get("rfilename") for file in rows(info.get("siblings"))]
    return name if name in files else ""

"""Queries the Hugging Face hub for a repository: for `xsft check` and `plan` with a short time limit, and before a
conversion.

source: huggingface_hub@2.4.0 hf_api.py [model_info, dataset_info, auth_check], file_download.py [hf_hub_url],
utils/_http.py [hf_raise_for_status] (X-Error-Code); datasets@5.2.0 utils/_dataset_viewer.py
[get_exported_dataset_infos] and huggingface.co/docs/dataset-viewer/info. Tested against a stand-in on loopback only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from re import fullmatch
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace
from requests import RequestException
from requests.exceptions import Timeout
from urllib3.exceptions import HTTPError

from xsft.base.acceptance import accept_late
from xsft.base.errors import Unreachable
from xsft.base.forms import HUB_ID
from xsft.base.lenient import mapping, rows, whole
from xsft.base.problems import Problem, error
from xsft.base.secrets import hold_secret
from xsft.catalog.hf_config import quantisation_evidence, source_fields
from xsft.data.facts import HubDataFacts
from xsft.machine.http_session import Session
from xsft.machine.parallel import call_within
from xsft.machine.paths import hub_token
from xsft.machine.process import own_environment
from xsft.spec.conversion_inputs import BRANCH, ConversionSource, is_commit
from xsft.spec.facts import SourceFacts
from xsft.spec.resolve import Run
from xsft.weights.weights_folder import CONFIG, INDEX, SINGLE, vocabulary

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
        facts = call_within(DEADLINE_S, lambda: read_repository(source, env=env, token=token))
    except Unreachable as failed:
        return SourceFacts(unanswered=failed.message)
    return replace(facts, commit=None, weights_bytes=None)


def check_commit(repository: str, revision: str) -> str | None:
    """Return the commit of a branch or tag, 40 hex digits; None if the hub does not answer, or refuses this login.
    `repository`: `models/owner/name` or `datasets/owner/name`. Raises nothing."""
    env, token = _own_login()

    def read_commit() -> str | None:
        url = f"{endpoint_of(env)}/api/{repository}/revision/{quote(revision, safe='')}"
        with hub_session(token) as session:
            commit = str(read_json(session, url).get("sha"))
        return commit if is_commit(commit) else None

    try:
        return call_within(DEADLINE_S, read_commit)
    except (Unreachable, HubAnswer, RequestException, ValueError):
        return None


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
        except HubAnswer as failure:
            return _no_tokenizer(name, failure)
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
            configurations = _read_configurations(session, f"{viewer}/info?dataset={quote(path, safe='')}")
            # datasets would run this file as a loading script. source: datasets@5.2.0 load.py [dataset_module_factory].
            name = f"{path.rpartition('/')[2]}.py"
            files = [file.get("rfilename") for file in rows(info.get("siblings"))]
            return replace(configurations, default=_default_of(info), script=name if name in files else "")
        except HubAnswer as failure:
            if failure.status >= 500 or failure.status == 429:
                raise Unreachable(f"The hub answers {failure} for {path}.", fix="Try again in a minute.") from None
            return HubDataFacts(access="gated" if failure.code == "GatedRepo" else "unknown")
        except (RequestException, ValueError) as failed:
            message = f"{endpoint} did not answer about {path}: {type(failed).__name__}."
            raise Unreachable(message, fix="Check the network and HF_ENDPOINT.") from failed


def _access(session: Session, endpoint: str, path: str) -> HubDataFacts | None:
    """Return the facts of a gated data set that this login, or an anonymous request, may not read; None if it may."""
    try:
        read_json(session, f"{endpoint}/api/datasets/{path}/auth-check")
    except HubAnswer as failure:
        if failure.status in (401, 403):
            return HubDataFacts(access="gated")
        raise
    except ValueError:  # the answer has no body
        return None
    return None


def _read_configurations(session: Session, url: str) -> HubDataFacts:
    """Return the configurations, as the dataset viewer computed them; without any if it has none, or only a part."""
    try:
        document = read_json(session, url)
    except (HubAnswer, RequestException, ValueError):
        return HubDataFacts()
    if document.get("partial") is not False or document.get("pending") or document.get("failed"):
        return HubDataFacts()
    configurations = mapping(document, "dataset_info")
    return HubDataFacts(
        splits={name: tuple(mapping(configuration, "splits")) for name, configuration in configurations.items()},
        columns={name: tuple(mapping(configuration, "features")) for name, configuration in configurations.items()},
    )


def _default_of(info: Mapping[str, Any]) -> str | None:
    """Return the configuration that the data set's card marks with `default: true`. source: datasets@5.2.0
    utils/metadata.py MetadataConfigs.get_default_config_name."""
    for configuration in rows(mapping(info, "cardData").get("configs")):
        if configuration.get("default") is True:
            return str(configuration.get("config_name"))
    return None


ENDPOINT = "https://huggingface.co"
TIMEOUT_S = 10.0
LARGEST = 64 << 20
"""Maximum bytes read of an answer; the index of a model of 1,000 GB has 10 MB."""
REPO, REVISION = "model.hf.repo", "model.hf.revision"
_BITS = re.compile(r"(?:BF|F|I|U)([0-9]+)(?:_|$)")
"""Width of a type of safetensors, e.g. BF16, F8_E4M3, U8. source: safetensors@0.6 tensor.rs Dtype."""


class HubAnswer(Exception):
    """An answer that is not a success."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"{status} {code}".strip())
        self.status, self.code = status, code


def read_repository(source: ConversionSource, *, env: Mapping[str, str], token: str | None) -> SourceFacts:
    """Return the hub's facts; a problem states why it cannot be converted. Raises Unreachable if the hub does not
    answer. `token` is sent only to the hub.
    """
    endpoint = endpoint_of(env)
    revision = source.revision or BRANCH
    with hub_session(token) as session:
        try:
            info = read_json(session, f"{endpoint}/api/models/{source.repo}/revision/{quote(revision, safe='')}")
            return _facts_of_answer(session, f"{endpoint}/{source.repo}/resolve", source, info)
        except HubAnswer as failure:
            return SourceFacts(problems=(_problem(source, failure, has_token=token is not None),))
        except (RequestException, ValueError) as failed:
            why = "timed out" if isinstance(failed, Timeout) else type(failed).__name__
            fix = "Check the network and HF_ENDPOINT, or download the repository and set model.hf.repo to the folder."
            raise Unreachable(f"{endpoint} could not be read for {source.repo}: {why}", fix=fix) from failed


def hub_session(token: str | None) -> Session:
    """Return a session that sends the token to the hosts it asks, and no other login."""
    session = Session()
    if token:
        session.headers["Authorization"] = f"Bearer {token}"
    return session


def endpoint_of(env: Mapping[str, str]) -> str:
    """Return the hub's address. Raises Unreachable if the user forbids requests."""
    if env.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise Unreachable(
            "HF_HUB_OFFLINE is set, so the hub was not contacted.", fix="Unset it, or use a folder on this machine."
        )
    return (env.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")


def read_token(file: str | None) -> str | None:
    """Return the token in the file that `hf auth login` wrote: the one the converter will send, and no other."""
    try:
        return hold_secret(Path(file).read_text(encoding="utf-8").strip()) or None if file else None
    except (OSError, UnicodeDecodeError):
        return None


def _facts_of_answer(session: Session, files: str, source: ConversionSource, info: Mapping[str, Any]) -> SourceFacts:
    commit = str(info.get("sha"))
    if not is_commit(commit):
        raise ValueError("no commit in the answer")
    names = {str(file.get("rfilename")) for file in rows(info.get("siblings"))}
    if CONFIG not in names or not {INDEX, SINGLE} & names:
        message = f"{source.repo} has no config.json with model.safetensors or its index at this revision."
        fix = "Use a repository with safetensors; adapters, GGUF and .bin files are not converted."
        return SourceFacts(commit=commit, problems=(error("hf-repo-invalid", REPO, message, fix),))
    config = read_json(session, f"{files}/{commit}/{CONFIG}")
    index = read_json(session, f"{files}/{commit}/{INDEX}") if INDEX in names else {}
    dtypes = mapping(info, "safetensors", "parameters")
    size = whole(mapping(index, "metadata").get("total_size"))
    return SourceFacts(
        commit=commit,
        quantized=quantisation_evidence(config, arrays=mapping(index, "weight_map"), dtypes=dtypes),
        weights_bytes=bytes_of(dtypes) if size is None else size,
        vocabulary=vocabulary(config),
        fields=source_fields(config),
    )


def bytes_of(counts: Mapping[str, Any]) -> int | None:
    """Return the bytes of so many numbers by their safetensors type; None if a type's width is unknown. source:
    huggingface_hub@2.4.0 hf_api.py [SafeTensorsInfo.parameters]."""
    bits = {name: _width_of(name) for name in counts}
    if not counts or not all(bits.values()) or not all(isinstance(count, int) for count in counts.values()):
        return None
    return sum(int(count) * bits[name] // 8 for name, count in counts.items())


def _width_of(type: str) -> int:
    """Return the bits of a number of the safetensors type, e.g. 16 for BF16; 0 if they are unknown."""
    if type == "BOOL":
        return 8
    width = _BITS.match(type)
    return int(width[1]) if width else 0


def read_json(session: Session, url: str) -> dict[str, Any]:
    """Return the answer. Raises HubAnswer, RequestException, and ValueError for one that is no JSON object."""
    try:
        with session.get(url, timeout=TIMEOUT_S, stream=True) as answer:
            if answer.status_code != HTTPStatus.OK:
                raise HubAnswer(answer.status_code, answer.headers.get("X-Error-Code", ""))
            content = answer.raw.read(LARGEST + 1, decode_content=True)
        document = json.loads(content)
    except (HTTPError, RecursionError) as broken:  # the connection was cut; or it is nested too deep
        raise ValueError("the answer is broken") from broken
    if len(content) > LARGEST or not isinstance(document, dict):
        raise ValueError("the answer is too long, or not a JSON object")
    return document


def _problem(source: ConversionSource, answer: HubAnswer, *, has_token: bool) -> Problem:
    """Return the problem. The hub gives the same answer for a name that does not exist and for a private repository."""
    login = "Log in with `hf auth login`" if not has_token else "Log in as an account that has access"
    if answer.code == "RevisionNotFound":
        message = f"{source.repo} has no revision {source.revision or BRANCH}."
        return error("hf-revision-unknown", REVISION, message, "Use a branch, a tag or a commit of the repository.")
    if answer.code == "GatedRepo" or (answer.status == HTTPStatus.FORBIDDEN and has_token):
        message = f"{source.repo} is gated, and the hub refuses {'this login' if has_token else 'anonymous readers'}."
        fix = f"Accept its terms at {ENDPOINT}/{source.repo}. {login}; xsft does not pass HF_TOKEN to MaxText."
        return error("hf-gated", REPO, message, fix)
    if answer.code == "RepoNotFound" or answer.status in (HTTPStatus.NOT_FOUND, HTTPStatus.UNAUTHORIZED):
        message = f"The hub has no repository {source.repo}, or it is private ({answer})."
        return error(
            "hf-repo-unknown", REPO, message, f"Check the spelling. If it is private: {login[0].lower()}{login[1:]}."
        )
    raise Unreachable(f"the hub returned {answer} for {source.repo}", fix="Try again in a minute.")

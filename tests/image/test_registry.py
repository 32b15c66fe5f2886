"""Requests to a registry, with their headers and number; content is used only if its digest matches."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from tests.engine.badproxy import BadProxy, Fault
from tests.engine.registryserver import Registry
from tests.fakes.served import Answer, Served, serving
from tests.until import until
from xsft.base.errors import Unknown, Unreachable, XsftError
from xsft.image.code_layer import ImageDocuments
from xsft.image.registry import PAUSES_S, RegistryClient


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as running:
        yield running


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def repository(served: Served, tmp_path: Path, waits: list[float]) -> RegistryClient:
    return RegistryClient(f"{served.address}/team/image", env={"HOME": str(tmp_path)}, sleep=waits.append)


def again(repository: RegistryClient, home: Path) -> RegistryClient:
    """Return a client that has not looked for a login yet."""
    return RegistryClient(repository.name, env={"HOME": str(home)}, sleep=lambda _: None)


def digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


CONFIG = json.dumps({"config": {"Labels": {"a": "1"}}}).encode()
MANIFEST = json.dumps(
    {"config": {"digest": digest(CONFIG), "size": 10}, "layers": [{"size": 5}, {"size": 7}], "mediaType": "m"}
).encode()
V1, BLOB = "/v2/team/image/manifests/v1", f"/v2/team/image/blobs/{digest(CONFIG)}"


def with_image(served: Served) -> None:
    served.answer(V1, Answer(body=MANIFEST))
    served.answer(f"/v2/team/image/manifests/{digest(MANIFEST)}", Answer(body=MANIFEST))
    served.answer(BLOB, Answer(body=CONFIG))


def test_an_image_is_its_manifest_and_configuration(served: Served, repository: RegistryClient) -> None:
    with_image(served)
    content, manifest = repository.manifest("v1")
    assert (content, manifest.size) == (MANIFEST, 22)
    image = ImageDocuments(media_type="m", manifest=MANIFEST, configuration=CONFIG)
    assert repository.image("v1") == repository.image(digest(MANIFEST)) == image
    assert repository.manifest("v2") is repository.image("v2") is None


def test_the_image_for_tpu_hosts_is_selected_from_an_index(served: Served, repository: RegistryClient) -> None:
    with_image(served)
    platforms = [("linux", "arm64", "sha256:" + "1" * 64), ("linux", "amd64", digest(MANIFEST))]
    manifests = [{"digest": d, "platform": {"os": o, "architecture": a}} for o, a, d in platforms]
    served.answer("/v2/team/image/manifests/all", Answer(body=json.dumps({"manifests": manifests}).encode()))
    assert repository.image("all").digest == digest(MANIFEST)


@pytest.mark.parametrize(
    "body",
    [
        b'{"config": "x"}',
        b'{"layers": 5}',
        b'{"config": {"digest": 7}}',
        b'{"manifests": [[]]}',
        b"[" * 100_000,
        b"\xff",
    ],
    ids=["config", "layers", "digest", "index", "deep", "not text"],
)
def test_a_malformed_manifest_is_registry_contradicts(served: Served, repository: RegistryClient, body: bytes) -> None:
    served.answer(V1, Answer(body=body))
    with pytest.raises(Unknown) as unknown:
        repository.image("v1")
    assert unknown.value.problem_id == "registry-contradicts"


def test_content_that_does_not_match_its_digest_is_refused(served: Served, repository: RegistryClient) -> None:
    with_image(served)
    other = "sha256:" + "0" * 64
    served.answer(f"/v2/team/image/manifests/{other}", Answer(body=MANIFEST))
    served.answer("/v2/team/image/manifests/lie", Answer(body=MANIFEST, headers={"Docker-Content-Digest": other}))
    served.answer(BLOB, Answer(body=CONFIG + b" "))
    for look in (
        lambda: repository.manifest(other),
        lambda: repository.manifest("lie"),
        lambda: repository.image("v1"),
        lambda: repository.blob(other),
    ):
        with pytest.raises(Unknown) as unknown:
            look()
        assert unknown.value.problem_id == "registry-contradicts"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_registry_is_asked_again_and_retry_after_lengthens_the_pause(
    served: Served, repository: RegistryClient, waits: list[float], status: int
) -> None:
    served.answer(V1, Answer(status), Answer(status, headers={"Retry-After": "3"}), Answer(body=MANIFEST))
    assert repository.manifest("v1")
    assert waits == [0.5, 3.0]


@pytest.mark.parametrize(
    ("status", "id", "words"), [(429, "registry-rate-limited", "too many"), (500, "registry-unreachable", "HTTP 500")]
)
def test_a_registry_that_stays_busy_is_told_within_ten_seconds(
    served: Served, repository: RegistryClient, waits: list[float], status: int, id: str, words: str
) -> None:
    served.answer(V1, Answer(status, body=json.dumps({"errors": [{"message": "slow down"}]}).encode()))
    with pytest.raises(Unreachable, match="slow down") as failed:
        repository.manifest("v1")
    assert (failed.value.problem_id, words in failed.value.message) == (id, True)
    assert waits == [*PAUSES_S]
    assert sum(waits) < 10


def test_a_retry_after_over_the_budget_is_not_waited_for(
    served: Served, repository: RegistryClient, waits: list[float]
) -> None:
    served.answer(V1, Answer(429, headers={"Retry-After": "600"}))
    with pytest.raises(Unreachable):
        repository.manifest("v1")
    assert waits == []


def test_a_refused_connection_is_retried_twice(tmp_path: Path, waits: list[float]) -> None:
    nowhere = RegistryClient("127.0.0.1:1/team/image", env={"HOME": str(tmp_path)}, sleep=waits.append)
    with pytest.raises(Unreachable) as failed:
        nowhere.manifest("v1")
    assert (failed.value.problem_id, waits) == ("registry-unreachable", [0.5, 1.0])


@pytest.mark.parametrize("status", [403, 301, 307])
def test_other_answers_are_refusals_and_no_manifest_is_redirected(
    served: Served, repository: RegistryClient, waits: list[float], status: int
) -> None:
    with_image(served)
    served.answer("/v2/team/image/manifests/moved", Answer(status, headers={"Location": V1}))
    with pytest.raises(XsftError):
        repository.manifest("moved")
    assert waits == []


def log_in(folder: Path, host: str, **entry: str) -> None:
    (folder / ".docker").mkdir()
    (folder / ".docker" / "config.json").write_text(json.dumps({"auths": {host: entry}}))


def basic(secret: str) -> str:
    return base64.b64encode(f"me:{secret}".encode()).decode()


def challenge(text: str) -> Answer:
    return Answer(401, headers={"WWW-Authenticate": text})


def protect(served: Served, login: str, ask: Answer) -> None:
    """Answer with the manifest to requests with that Authorization header only."""
    served.answers[V1] = lambda login_sent: Answer(body=MANIFEST) if login_sent == login else ask


def test_basic_authentication_is_used_if_the_registry_requests_it(
    served: Served, repository: RegistryClient, tmp_path: Path
) -> None:
    secret = secrets.token_hex()
    protect(served, f"Basic {basic(secret)}", challenge('Basic realm="r"'))
    with pytest.raises(Unreachable) as missing:
        repository.manifest("v1")
    assert missing.value.problem_id == "registry-login-missing"
    log_in(tmp_path, served.address, auth=basic(secret))
    assert again(repository, tmp_path).manifest("v1")
    assert served.asked[-2][1] == "", "nothing is told before it is asked for"


@pytest.mark.parametrize("more", [',service="s"', ", service=s, error"])
def test_a_bearer_token_is_fetched_once_if_the_registry_requests_one(
    served: Served, repository: RegistryClient, tmp_path: Path, more: str
) -> None:
    token = secrets.token_hex()
    log_in(tmp_path, served.address, auth=basic("mine"))
    protect(served, f"Bearer {token}", challenge(f'Bearer realm="http://{served.address}/token"{more}'))
    served.answer("/token", Answer(body=json.dumps({"token": token}).encode()))
    assert repository.manifest("v1")
    assert served.asked[1] == ("GET /token?scope=repository%3Ateam%2Fimage%3Apull&service=s", f"Basic {basic('mine')}")
    assert repository.manifest("v1")
    assert len(served.asked) == 4


def test_an_identity_token_is_sent_to_the_token_service_only(
    served: Served, repository: RegistryClient, tmp_path: Path
) -> None:
    token, identity = secrets.token_hex(), secrets.token_hex()
    log_in(tmp_path, served.address, auth="", identitytoken=identity)
    protect(served, f"Bearer {token}", challenge(f'Bearer realm="http://{served.address}/token",service="s"'))
    served.answer("/token", Answer(body=json.dumps({"access_token": token}).encode()))
    assert repository.manifest("v1")
    (body,) = served.bodies
    assert dict(parse_qsl(body.decode())) == {
        "grant_type": "refresh_token",
        "refresh_token": identity,
        "client_id": "xsft",
        "service": "s",
        "scope": "repository:team/image:pull",
    }
    assert identity not in str(served.asked)
    served.answer(V1, challenge('Basic realm="r"'))
    with pytest.raises(Unreachable) as refused:
        again(repository, tmp_path).manifest("v1")
    assert refused.value.problem_id == "registry-login-refused", "it is no password"


def test_a_token_service_without_tls_receives_no_login(
    served: Served, repository: RegistryClient, tmp_path: Path
) -> None:
    log_in(tmp_path, served.address, auth=basic("mine"))
    served.answer(V1, challenge('Bearer realm="http://xsft-tests-stranger.invalid/token",service="s"'))
    with pytest.raises(Unreachable) as refused:
        repository.manifest("v1")
    assert refused.value.problem_id == "registry-login-refused"
    assert len(served.asked) == 1


def test_a_login_does_not_follow_to_another_host(served: Served, repository: RegistryClient, tmp_path: Path) -> None:
    """Blobs are often stored elsewhere, and uploads sent elsewhere."""
    log_in(tmp_path, served.address, auth=basic("mine"))
    with serving() as elsewhere:
        elsewhere_header = {"Location": f"http://localhost:{elsewhere.address.rpartition(':')[2]}/stored"}
        elsewhere.answer("/stored", Answer(body=CONFIG))
        served.answers[BLOB] = lambda login_sent: (
            Answer(307, headers=elsewhere_header) if login_sent else challenge('Basic realm="r"')
        )
        assert repository.blob(digest(CONFIG)) == CONFIG
        served.answer(UPLOADS, Answer(202, headers=elsewhere_header))
        repository.refuse_unless_pushable()
        assert [login for _, login in elsewhere.asked] == ["", ""]


UPLOADS = "/v2/team/image/blobs/uploads/"


@pytest.mark.parametrize("location", ["/v2/team/image/blobs/uploads/7?s=1", "/uploads/7", "http://{}/artifacts/7"])
def test_the_right_to_push_is_tried_by_an_upload_that_is_cancelled(
    served: Served, repository: RegistryClient, location: str
) -> None:
    upload_url = location.format(served.address)
    path = upload_url.removeprefix(f"http://{served.address}")
    served.answer(UPLOADS, Answer(202, headers={"Location": upload_url}))
    served.answer(path.partition("?")[0], Answer(403))
    repository.refuse_unless_pushable()
    assert [line for line, _ in served.asked] == [f"POST {UPLOADS}", f"DELETE {path}"]


@pytest.mark.parametrize(
    ("answer", "logs_in", "id"),
    [
        (challenge('Basic realm="r"'), False, "registry-login-missing"),
        (challenge('Basic realm="r"'), True, "registry-login-refused"),
        (challenge('Bearer error="insufficient_scope"'), True, "registry-forbidden"),
        (challenge('Bearer error="insufficient_scope"'), False, "registry-login-missing"),
        (Answer(403, b'{"errors": [{"code": "DENIED"}]}'), True, "registry-forbidden"),
        (Answer(404, b'{"errors": [{"code": "NAME_UNKNOWN"}]}'), True, "repository-missing"),
        (Answer(405, b'{"errors": [{"code": "UNSUPPORTED"}]}'), True, "registry-forbidden"),
        (Answer(500, b"<html>no</html>"), True, "registry-unreachable"),
    ],
)
def test_what_a_push_would_be_refused_for_is_told(
    served: Served, repository: RegistryClient, tmp_path: Path, answer: Answer, logs_in: bool, id: str
) -> None:
    if logs_in:
        log_in(tmp_path, served.address, auth=basic(secrets.token_hex()))
    served.answer(UPLOADS, answer)
    with pytest.raises(XsftError) as refused:
        repository.refuse_unless_pushable()
    assert refused.value.problem_id == id


def test_a_push_requests_a_token_for_pull_and_push(served: Served, repository: RegistryClient, tmp_path: Path) -> None:
    served.answer(UPLOADS, challenge(f'Bearer realm="http://{served.address}/token"'))
    with pytest.raises(Unreachable):
        repository.refuse_unless_pushable()
    assert "GET /token?scope=repository%3Ateam%2Fimage%3Apull%2Cpush" in [line for line, _ in served.asked]


def test_a_blob_that_is_there_is_not_sent(served: Served, repository: RegistryClient) -> None:
    with_image(served)
    assert repository.add_blob(CONFIG) == 0
    assert served.bodies == []


@pytest.mark.engine
@pytest.mark.parametrize(
    ("fault", "requests"),
    [
        (None, ["HEAD 404", "POST 202", "PUT 201"]),
        (Fault(on="^PUT", action="cut", after_bytes=4), ["HEAD 404", "POST 202", "PUT 0", "POST 202", "PUT 201"]),
        (Fault(on="^PUT", code=500), ["HEAD 404", "POST 202", "PUT 500", "POST 202", "PUT 201"]),
        (Fault(on="^PUT", code=404), ["HEAD 404", "POST 202", "PUT 404", "POST 202", "PUT 201"]),
        (Fault(on="^POST", code=503), ["HEAD 404", "POST 503", "POST 202", "PUT 201"]),
    ],
    ids=["in order", "cut", "500", "forgotten", "busy"],
)
def test_an_upload_that_broke_is_begun_again(
    bad_proxy: BadProxy, registry: Registry, tmp_path: Path, fault: Fault | None, requests: list[str]
) -> None:
    client = RegistryClient(
        f"{bad_proxy.address}/{registry.repository}", env={"HOME": str(tmp_path)}, sleep=lambda _: None
    )
    bad_proxy.faults += [fault] if fault else []
    content = b"some bytes"
    assert client.add_blob(content) == len(content)
    until(
        lambda: len(bad_proxy.seen) == len(requests) and bad_proxy.seen[-1].code,
        what="the proxy to note its last answer",
    )
    assert [f"{request.line.split()[0]} {request.code}" for request in bad_proxy.seen] == requests
    assert client.blob(digest(content)) == content


@pytest.mark.engine
@pytest.mark.parametrize("status", [401, 403, 500])
def test_an_upload_that_is_refused_for_ever_ends_soon(
    bad_proxy: BadProxy, registry: Registry, tmp_path: Path, status: int
) -> None:
    waits: list[float] = []
    client = RegistryClient(
        f"{bad_proxy.address}/{registry.repository}", env={"HOME": str(tmp_path)}, sleep=waits.append
    )
    bad_proxy.faults.append(Fault(on="^PUT", code=status, times=999))
    with pytest.raises(Unreachable) as failed:
        client.add_blob(b"x")
    ids = {401: "registry-login-missing", 403: "registry-forbidden", 500: "registry-unreachable"}
    assert failed.value.problem_id == ids[status]
    assert waits == ([*PAUSES_S] if status == 500 else [])

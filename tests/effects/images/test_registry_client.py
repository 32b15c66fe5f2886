"""Requests to a registry, with their headers and number; content is used only if its digest matches."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from tests.engine.badproxy import BadProxy
from tests.engine.daemon import Engine as RunningEngine
from tests.engine.registryserver import Registry
from tests.engine.steps import step
from tests.fakes.loopback import serving_http
from tests.replacing import replace
from tests.until import until
from xsft.base.errors import Unknown, Unreachable, XsftError
from xsft.effects.images import docker_client
from xsft.effects.images.docker_build import build, find_client
from xsft.effects.images.docker_push import pusher
from xsft.effects.images.registry_client import Registries
from xsft.effects.images.registry_http import MAX_BYTES


@dataclass
class Answer:
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Served:
    """Answers by path; what is not named is not there."""

    address: str = ""
    answers: dict[str, Callable[[str], Answer]] = field(default_factory=dict)
    """Path without query -> answer to a request with that Authorization header."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    posted: list[str] = field(default_factory=list)
    """Bodies."""
    deleted: list[str] = field(default_factory=list)


@pytest.fixture
def served() -> Iterator[Served]:
    found = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.posted.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.do_GET()

        def do_DELETE(self) -> None:
            found.deleted.append(self.path)
            self.do_GET()

        def do_GET(self) -> None:
            login = self.headers.get("Authorization", "")
            found.asked.append((self.path, login))
            answer = found.answers.get(self.path.partition("?")[0], lambda _: Answer(404))(login)
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

    with serving_http(Handler) as url:
        found.address = url.removeprefix("http://")
        yield found


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def registries(tmp_path: Path, waits: list[float]) -> Registries:
    return Registries(env={"HOME": str(tmp_path)}, sleep=waits.append)


def digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


CONFIG = json.dumps({"config": {"Labels": {"a": "1"}, "Env": ["X=1"]}}).encode()
MANIFEST = json.dumps(
    {"config": {"digest": digest(CONFIG), "size": 10}, "layers": [{"size": 5}, {"size": 7}], "mediaType": "m"}
).encode()


def with_image(served: Served) -> str:
    served.answers["/v2/team/image/manifests/v1"] = lambda _: Answer(body=MANIFEST)
    served.answers[f"/v2/team/image/manifests/{digest(MANIFEST)}"] = lambda _: Answer(body=MANIFEST)
    served.answers[f"/v2/team/image/blobs/{digest(CONFIG)}"] = lambda _: Answer(body=CONFIG)
    return f"{served.address}/team/image"


def test_manifest_and_image_return_digest_size_and_labels(served: Served, registries: Registries) -> None:
    image = with_image(served)
    manifest = registries.manifest(f"{image}:v1")
    assert manifest is not None
    assert (manifest.digest, manifest.size) == (digest(MANIFEST), 22)
    assert registries.manifest_digest(f"{image}@{digest(MANIFEST)}") == digest(MANIFEST)
    assert registries.image(f"{image}:v1").labels == {"a": "1"}


def test_a_missing_image_is_none_without_an_error(served: Served, registries: Registries) -> None:
    image = f"{served.address}/team/none"
    assert registries.manifest_digest(f"{image}:v1") is None
    assert registries.image(f"{image}:v1") is None
    assert registries.tags(image) == ()


def test_image_selects_linux_amd64_from_an_index(served: Served, registries: Registries) -> None:
    image = with_image(served)
    platforms = [("linux", "arm64", "sha256:" + "1" * 64), ("linux", "amd64", digest(MANIFEST))]
    manifests = [{"digest": d, "platform": {"os": o, "architecture": a}} for o, a, d in platforms]
    served.answers["/v2/team/image/manifests/all"] = lambda _: Answer(
        body=json.dumps({"manifests": manifests}).encode()
    )
    found = registries.image(f"{image}:all")
    assert found is not None
    assert found.labels == {"a": "1"}
    assert found.digest == digest(json.dumps({"manifests": manifests}).encode()), "of the index: what is pulled by it"


@pytest.mark.parametrize(
    "body",
    [
        b'{"config": "x"}',
        b'{"layers": 5}',
        b'{"config": {"digest": 7}}',
        b'{"layers": [{"size": "1"}]}',
        b'{"manifests": [[]]}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_a_malformed_manifest_is_registry_contradicts(served: Served, registries: Registries, body: bytes) -> None:
    served.answers["/v2/team/image/manifests/odd"] = lambda _: Answer(body=body)
    with pytest.raises(Unknown) as unknown:
        registries.image(f"{served.address}/team/image:odd")
    assert unknown.value.problem_id == "registry-contradicts"


def test_a_manifest_that_is_not_an_image_has_no_labels(served: Served, registries: Registries) -> None:
    body = b'{"mediaType": "x", "layers": null}'
    served.answers["/v2/team/image/manifests/chart"] = lambda _: Answer(body=body)
    found = registries.image(f"{served.address}/team/image:chart")
    assert found is not None
    assert (found.digest, found.labels) == (digest(body), {})


def test_content_that_does_not_match_its_digest_is_refused(served: Served, registries: Registries) -> None:
    image, other = with_image(served), "sha256:" + "0" * 64
    served.answers[f"/v2/team/image/manifests/{other}"] = lambda _: Answer(body=MANIFEST)
    served.answers["/v2/team/image/manifests/lie"] = lambda _: Answer(
        body=MANIFEST, headers={"Docker-Content-Digest": other}
    )
    served.answers[f"/v2/team/image/blobs/{digest(CONFIG)}"] = lambda _: Answer(body=CONFIG + b" ")
    served.answers["/v2/team/image/manifests/html"] = lambda _: Answer(body=b"<html>")
    for look in (
        lambda: registries.manifest_digest(f"{image}@{other}"),
        lambda: registries.manifest_digest(f"{image}:lie"),
        lambda: registries.image(f"{image}:v1"),
        lambda: registries.manifest_digest(f"{image}:html"),
    ):
        with pytest.raises(Unknown) as unknown:
            look()
        assert unknown.value.problem_id == "registry-contradicts"


@pytest.mark.parametrize("more", [0, 1])
def test_a_response_over_8_mib_is_reported_as_too_large(served: Served, registries: Registries, more: int) -> None:
    """The added spaces keep the JSON valid."""
    body = MANIFEST.ljust(MAX_BYTES + more)
    served.answers["/v2/team/image/manifests/v1"] = lambda _: Answer(body=body)
    served.answers["/v2/team/image/tags/list"] = lambda _: Answer(403, body=body)
    image = f"{served.address}/team/image"
    if not more:
        assert registries.manifest_digest(f"{image}:v1") == digest(body)
        return
    with pytest.raises(Unknown, match=r"too large \(over 8 MiB\)") as large:
        registries.manifest_digest(f"{image}:v1")
    assert large.value.problem_id == "registry-answer-large"
    with pytest.raises(Unreachable):
        registries.tags(image)


def test_tags_follows_pages_on_the_same_registry_only(served: Served, registries: Registries) -> None:
    pages = iter(
        [
            Answer(body=b'{"tags": ["b", "a"]}', headers={"Link": '</v2/team/image/tags/list?last=b>; rel="next"'}),
            Answer(body=b'{"tags": ["c"]}', headers={"Link": '<http://127.0.0.1:1/v2/x/tags/list>; rel="next"'}),
        ]
    )
    served.answers["/v2/team/image/tags/list"] = lambda _: next(pages)
    assert registries.tags(f"{served.address}/team/image") == ("a", "b", "c")
    assert [path for path, _ in served.asked] == ["/v2/team/image/tags/list?n=1000", "/v2/team/image/tags/list?last=b"]


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_busy_registry_is_retried(served: Served, registries: Registries, waits: list[float], status: int) -> None:
    image = with_image(served)
    answers = iter([Answer(status), Answer(status, headers={"Retry-After": "3"}), Answer(body=MANIFEST)])
    served.answers["/v2/team/image/manifests/v1"] = lambda _: next(answers)
    assert registries.manifest_digest(f"{image}:v1") == digest(MANIFEST)
    assert waits == [0.5, 3.0]


@pytest.mark.parametrize(("status", "id"), [(429, "registry-rate-limited"), (500, "registry-unreachable")])
def test_a_registry_that_stays_busy_is_reported_after_five_retries(
    served: Served, registries: Registries, waits: list[float], status: int, id: str
) -> None:
    body = json.dumps({"errors": [{"message": "slow down"}]}).encode()
    served.answers["/v2/team/image/manifests/v1"] = lambda _: Answer(status, body=body)
    with pytest.raises(Unreachable, match="slow down") as failed:
        registries.manifest_digest(f"{served.address}/team/image:v1")
    assert failed.value.problem_id == id
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0]


def test_a_retry_after_over_the_budget_is_not_waited_for(
    served: Served, registries: Registries, waits: list[float]
) -> None:
    served.answers["/v2/team/image/manifests/v1"] = lambda _: Answer(429, headers={"Retry-After": "600"})
    with pytest.raises(Unreachable):
        registries.manifest_digest(f"{served.address}/team/image:v1")
    assert waits == []


def test_a_refused_connection_is_retried_twice(registries: Registries, waits: list[float]) -> None:
    with pytest.raises(Unreachable) as failed:
        registries.manifest_digest("127.0.0.1:1/team/image:v1")
    assert (failed.value.problem_id, waits) == ("registry-unreachable", [0.5, 1.0])


def logged_in(folder: Path, host: str, secret: str) -> None:
    (folder / ".docker").mkdir()
    auth = base64.b64encode(f"me:{secret}".encode()).decode()
    (folder / ".docker" / "config.json").write_text(json.dumps({"auths": {host: {"auth": auth}}}))


def test_basic_authentication_is_used_if_the_registry_requests_it(
    served: Served, registries: Registries, tmp_path: Path
) -> None:
    secret, image = secrets.token_hex(), with_image(served)
    right = "Basic " + base64.b64encode(f"me:{secret}".encode()).decode()
    asks = Answer(401, headers={"WWW-Authenticate": 'Basic realm="r"'})
    served.answers["/v2/team/image/manifests/v1"] = lambda login: Answer(body=MANIFEST) if login == right else asks
    with pytest.raises(Unreachable) as missing:
        registries.manifest_digest(f"{image}:v1")
    assert missing.value.problem_id == "registry-login-missing"
    logged_in(tmp_path, served.address, secret)
    again = replace(registries, _logins={})
    assert again.manifest_digest(f"{image}:v1") == digest(MANIFEST)
    assert served.asked[-2][1] == "", "nothing is told before it is asked for"


@pytest.mark.parametrize("more", [',service="s"', ", service=s, error"])
def test_a_bearer_token_is_fetched_if_the_registry_requests_one(
    served: Served, registries: Registries, tmp_path: Path, more: str
) -> None:
    token, image = secrets.token_hex(), with_image(served)
    logged_in(tmp_path, served.address, "mine")
    challenge = f'Bearer realm="http://{served.address}/token"{more}'
    asks = Answer(401, headers={"WWW-Authenticate": challenge})
    served.answers["/v2/team/image/manifests/v1"] = lambda login: (
        Answer(body=MANIFEST) if login == f"Bearer {token}" else asks
    )
    served.answers["/token"] = lambda _: Answer(body=json.dumps({"token": token}).encode())
    assert registries.manifest_digest(f"{image}:v1") == digest(MANIFEST)
    path, login = served.asked[1]
    assert path == "/token?scope=repository%3Ateam%2Fimage%3Apull&service=s"
    assert base64.b64decode(login.removeprefix("Basic ")) == b"me:mine"


def test_an_identity_token_is_sent_to_the_token_service_only(
    served: Served, registries: Registries, tmp_path: Path
) -> None:
    token, identity, image = secrets.token_hex(), secrets.token_hex(), with_image(served)
    (tmp_path / ".docker").mkdir()
    auths = {served.address: {"auth": "", "identitytoken": identity}}
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"auths": auths}))
    challenge = f'Bearer realm="http://{served.address}/token",service="s"'
    asks = Answer(401, headers={"WWW-Authenticate": challenge})
    served.answers["/v2/team/image/manifests/v1"] = lambda login: (
        Answer(body=MANIFEST) if login == f"Bearer {token}" else asks
    )
    served.answers["/token"] = lambda _: Answer(body=json.dumps({"access_token": token}).encode())
    assert registries.manifest_digest(f"{image}:v1") == digest(MANIFEST)
    assert [dict(parse_qsl(body)) for body in served.posted] == [
        {
            "grant_type": "refresh_token",
            "refresh_token": identity,
            "client_id": "xsft",
            "service": "s",
            "scope": "repository:team/image:pull",
        }
    ]
    assert identity not in str(served.asked)


def test_an_identity_token_is_not_sent_as_a_password(served: Served, registries: Registries, tmp_path: Path) -> None:
    (tmp_path / ".docker").mkdir()
    auths = {served.address: {"identitytoken": secrets.token_hex()}}
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"auths": auths}))
    image = with_image(served)
    asks = Answer(401, headers={"WWW-Authenticate": 'Basic realm="r"'})
    served.answers["/v2/team/image/manifests/v1"] = lambda _: asks
    with pytest.raises(Unreachable) as refused:
        registries.manifest_digest(f"{image}:v1")
    assert refused.value.problem_id == "registry-login-refused"
    assert [login for _, login in served.asked] == [""]


def test_a_token_service_of_another_host_receives_no_credentials(
    served: Served, registries: Registries, tmp_path: Path
) -> None:
    image = with_image(served)
    logged_in(tmp_path, served.address, "mine")
    challenge = 'Bearer realm="https://xsft-tests-stranger.invalid/token",service="s"'
    served.answers["/v2/team/image/manifests/v1"] = lambda _: Answer(401, headers={"WWW-Authenticate": challenge})
    with pytest.raises(Unreachable) as refused:
        registries.manifest_digest(f"{image}:v1")
    assert refused.value.problem_id == "registry-login-refused"
    assert len(served.asked) == 1


def test_status_403_is_registry_forbidden(served: Served, registries: Registries) -> None:
    served.answers["/v2/team/image/tags/list"] = lambda _: Answer(403)
    with pytest.raises(Unreachable) as refused:
        registries.tags(f"{served.address}/team/image")
    assert refused.value.problem_id == "registry-forbidden"


def test_a_redirect_to_another_host_is_not_followed_for_a_manifest(served: Served, registries: Registries) -> None:
    image = with_image(served)
    there = {"Location": f"http://{served.address}/v2/team/image/manifests/v1"}
    served.answers["/v2/team/image/manifests/moved"] = lambda _: Answer(307, headers=there)
    with pytest.raises(Unreachable):
        registries.manifest_digest(f"{image}:moved")
    blob = served.answers[f"/v2/team/image/blobs/{digest(CONFIG)}"]
    served.answers["/storage"] = blob
    served.answers[f"/v2/team/image/blobs/{digest(CONFIG)}"] = lambda _: Answer(307, headers={"Location": "/storage"})
    assert registries.image(f"{image}:v1").labels == {"a": "1"}


UPLOADS = "/v2/team/image/blobs/uploads/"


@pytest.mark.parametrize("location", ["/v2/team/image/blobs/uploads/7?s=1", "/uploads/7", "http://{}/artifacts/7"])
def test_try_push_cancels_the_upload_once_without_retries(
    served: Served, registries: Registries, waits: list[float], location: str
) -> None:
    at = location.format(served.address)
    served.answers[UPLOADS] = lambda _: Answer(202, headers={"Location": at})
    served.answers[at.partition("?")[0].removeprefix(f"http://{served.address}")] = lambda _: Answer(503)
    registries.try_push(f"{served.address}/team/image")
    assert waits == []
    assert served.posted == [""]
    assert served.deleted == [at.removeprefix(f"http://{served.address}")]


def test_try_push_does_not_cancel_an_upload_at_another_host(served: Served, registries: Registries) -> None:
    served.answers[UPLOADS] = lambda _: Answer(202, headers={"Location": f"http://{served.address}.invalid/7"})
    registries.try_push(f"{served.address}/team/image")
    assert served.deleted == []


@pytest.mark.parametrize(
    ("answer", "logs_in", "id"),
    [
        (Answer(401, headers={"WWW-Authenticate": 'Basic realm="r"'}), False, "registry-login-missing"),
        (Answer(401, headers={"WWW-Authenticate": 'Basic realm="r"'}), True, "registry-login-refused"),
        (Answer(401, headers={"WWW-Authenticate": 'Bearer error="insufficient_scope"'}), True, "registry-forbidden"),
        (Answer(401, headers={"WWW-Authenticate": 'Bearer error="insufficient_scope"'}), False,
         "registry-login-missing"),
        (Answer(403, b'{"errors": [{"code": "DENIED"}]}'), True, "registry-forbidden"),
        (Answer(404, b'{"errors": [{"code": "NAME_UNKNOWN"}]}'), True, "repository-missing"),
        (Answer(405, b'{"errors": [{"code": "UNSUPPORTED"}]}'), True, "registry-forbidden"),
        (Answer(500), True, "registry-unreachable"),
    ],
)  # fmt: skip
def test_try_push_reports_why_a_push_would_be_refused(
    served: Served, registries: Registries, tmp_path: Path, answer: Answer, logs_in: bool, id: str
) -> None:
    if logs_in:
        logged_in(tmp_path, served.address, secrets.token_hex())
    served.answers[UPLOADS] = lambda _: answer
    with pytest.raises(XsftError) as refused:
        registries.try_push(f"{served.address}/team/image")
    assert refused.value.problem_id == id


def test_try_push_requests_a_token_for_pull_and_push(served: Served, registries: Registries, tmp_path: Path) -> None:
    logged_in(tmp_path, served.address, secrets.token_hex())
    challenge = f'Bearer realm="http://{served.address}/token"'
    served.answers[UPLOADS] = lambda _: Answer(401, headers={"WWW-Authenticate": challenge})
    with pytest.raises(Unreachable):
        registries.try_push(f"{served.address}/team/image")
    assert "/token?scope=repository%3Ateam%2Fimage%3Apull%2Cpush" in [path for path, _ in served.asked]


@pytest.mark.engine
def test_try_push_starts_and_cancels_an_upload_at_a_real_registry(bad_proxy: BadProxy, tmp_path: Path) -> None:
    Registries(env={"HOME": str(tmp_path)}).try_push(f"{bad_proxy.address}/team/image")
    until(lambda: all(seen.code for seen in bad_proxy.seen), what="the proxy to note its last answer")
    assert [(seen.line.split()[0], seen.code) for seen in bad_proxy.seen] == [("POST", 202), ("DELETE", 204)]


def test_pause_asked_returns_retry_after_of_a_busy_registry(served: Served, registries: Registries) -> None:
    answers = iter([Answer(429, headers={"Retry-After": "9"}), Answer(429), Answer(200, headers={"Retry-After": "9"})])
    served.answers["/v2/"] = lambda _: next(answers)
    assert [registries.pause_asked(served.address) for _ in range(3)] == [9.0, None, None]
    assert registries.pause_asked("127.0.0.1:1") is None


@pytest.mark.engine
def test_a_real_registry_returns_tags_digests_and_labels(
    engine: RunningEngine, registry: Registry, tmp_path: Path
) -> None:
    docker = docker_client.connect_engine(engine.env)
    made = step(tmp_path, {"data": registry.repository}, labels={"dev.xsft.kind": "code"})
    build(made, engine=docker, client=find_client(engine.env), names=("xsft-test/read:1",))
    repository = f"{registry.address}/{registry.repository}"
    asked = Registries(env=engine.env)
    assert asked.tags(repository) == ()
    assert asked.manifest_digest(f"{repository}:code-1") is None
    pushed = pusher(docker).push("xsft-test/read:1", repository=repository, tag="code-1")
    assert asked.tags(repository) == ("code-1",)
    assert asked.manifest_digest(f"{repository}:code-1") == pushed == registry.digest("code-1")
    assert asked.image(f"{repository}@{pushed}").labels == {"dev.xsft.kind": "code"}

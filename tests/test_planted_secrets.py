"""A secret in any text of a workload, in any key and in any place: refused, and in no message, output or file."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.everything import EVERYTHING, Tree
from tests.fakes.kubeapi import CONTEXT, write_kubeconfig
from tests.fakes.loopback import serving_http
from xsft.base.errors import SpecError
from xsft.base.problems import errors_in
from xsft.base.secrets import HIDDEN
from xsft.checks.facts import Facts
from xsft.planning.planner import make_intent
from xsft.spec.explain import read_spec
from xsft.spec.facts import TemplateFacts
from xsft.spec.place import PathwaysImages, Place
from xsft.verbs.cli import main
from xsft.verbs.document import problem_documents

Path_ = tuple[str | int, ...]

SHAPES: Mapping[str, Callable[[str], str]] = {
    "token": lambda s: "hf" + "_" + s,
    "login": lambda s: f"postgres://user:{s}@host",
    "signed": lambda s: f"https://host/path?X-Goog-Signature={s}",
    "header": lambda s: f"Authorization: Basic {s}",
    "connection": lambda s: f"AccountName=me;AccountKey={s};EndpointSuffix=core",
    "document": lambda s: json.dumps({"type": "authorized_user", "client_secret": s}),
    "netrc": lambda s: f"machine api.wandb.ai login user password {s}",
}
NAMES = (
    *("MYSECRET", "GITHUB_PAT", "OPENAI_KEY", "PGPASS", "HFTOKEN", "SSH_PRIVATE_KEY", "M_HF_ACCESS_TOKEN"),
    *("AUTHORIZATION", "JWT", "BEARER", "API_KEYS", "TOKEN1", "MYTOKENS", "HF_TOKEN_PATH", "TOKEN_FILE", "SECRET_NAME"),
)
FREE_KEYS = (("env",), ("overrides", "maxtext"), ("checks",), ("parallelism", "ici"), (), ("model",), ("place",))


def texts(node: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Yield the path of each text in a tree."""
    if isinstance(node, str):
        yield path
    elif isinstance(node, Mapping | list):
        for key, inner in node.items() if isinstance(node, Mapping) else enumerate(node):
            yield from texts(inner, (*path, key))


def planted(path: Path_, put: Callable[[Any], Any]) -> Tree:
    """EVERYTHING with another value there."""
    tree: Tree = json.loads(json.dumps(EVERYTHING))
    node: Any = tree
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = put(node.get(path[-1]) if isinstance(node, dict) else node[path[-1]])
    return tree


def assert_refused(tree: Tree, secret: str, *, facts: Facts | None = None) -> None:
    """Check that it is refused, by its form or as a secret, and that no problem shows the secret."""
    try:
        problems = make_intent(read_spec(json.dumps(tree)), facts or Facts()).problems
    except SpecError as refused:
        problems = refused.problems
    else:
        assert any(p.kind == "secret" for p in errors_in(problems)), tree
    assert secret not in str(problem_documents(problems))


@pytest.mark.parametrize(
    ("path", "behind"),
    list(zip(texts(EVERYTHING), cycle(SHAPES.values()), strict=False)),
    ids=lambda at: ".".join(map(str, at)) if isinstance(at, tuple) else "",
)
def test_a_secret_in_any_text_of_a_workload_is_refused(path: Path_, behind: Callable[[str], str]) -> None:
    """A token alone, and one of the shapes behind the text that stands there, and alone."""
    secret = secrets.token_hex(20)
    for text in {SHAPES["token"](secret), behind(secret)}:
        assert_refused(planted(path, lambda _old, text=text: text), secret)
    assert_refused(planted(path, lambda old: f"{old}/{behind(secret)}"), secret)


@pytest.mark.parametrize("section", FREE_KEYS, ids=".".join)
def test_a_secret_in_any_free_key_of_a_workload_is_refused(section: Path_) -> None:
    secret = secrets.token_hex(20)
    for shaped, value in zip(SHAPES.values(), cycle(("1", 1, ["a"], {"a": "b"})), strict=False):
        assert_refused(planted((*section, shaped(secret)), lambda _none, value=value: value), secret)


@pytest.mark.parametrize("name", NAMES)
def test_a_value_under_any_name_of_a_secret_is_refused(name: str) -> None:
    secret = "hunter" + secrets.token_hex(4)
    assert_refused(planted(("env", name), lambda _none: secret), secret)


@pytest.mark.parametrize("field", sorted(set(Place.model_fields) - {"chip_hour_price"}))  # a number holds no secret
def test_a_secret_in_the_place_of_a_workload_is_refused(field: str) -> None:
    secret = secrets.token_hex(20)
    value: Any = f"gs://bucket/{SHAPES['token'](secret)}"
    if field == "pathways":
        value = PathwaysImages(scratch=value)
    place = Place.model_construct(_fields_set={field}, **{field: value})
    assert_refused({**EVERYTHING, "place": "main"}, secret, facts=Facts(places={"main": place}))


def test_a_secret_in_a_chat_template_is_refused() -> None:
    secret = secrets.token_hex(20)
    template = TemplateFacts(text=f"{{{{ '{SHAPES['token'](secret)}' }}}}")
    assert_refused(dict(EVERYTHING), secret, facts=Facts(template=template))


WORKLOAD: Tree = {
    "name": "planted",
    "mode": "mcjax",
    "place": {"project": "my-project", "zone": "us-east5-b", "cluster": "c", "output": "gs://my-bucket/runs"},
    "tpu": {"type": "v6e-8"},
    "image": {"ref": "us-docker.pkg.dev/my-project/xsft/train:1", "maxtext": "0.2.5"},
    "model": {"name": "qwen3-0.6b", "tokenizer": "Qwen/Qwen3-0.6B", "hf": {"repo": "Qwen/Qwen3-0.6B"}},
    "data": {"hf_path": "HuggingFaceH4/ultrachat_200k", "train_split": "train_sft", "columns": ["messages"]},
    "train": {"steps": 100, "per_device_batch_size": 1},
}
VERBS = (("check",), ("check", "--json"), ("plan",), ("plan", "--json"), ("submit",), ("submit", "--json"))


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("shape", [*SHAPES, "name"])
def test_no_verb_prints_or_writes_a_planted_secret(
    verb: tuple[str, ...],
    shape: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    secret = secrets.token_hex(20)
    env = {"PGPASS": secret} if shape == "name" else {"NOTE": SHAPES[shape](secret)}
    file = tmp_path / "planted.yaml"
    file.write_text(json.dumps({**WORKLOAD, "env": env}))
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "XSFT_STATE_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(home))
    assert main((verb[0], str(file), *verb[1:])) == 2
    assert secret not in "".join(capsys.readouterr())
    assert main(("check", str(file), "--set", f"env.OTHER={SHAPES['login'](secret)}")) == 2
    assert main((verb[0], f"{SHAPES['login'](secret)}.yaml", *verb[1:])) == 2
    assert main((SHAPES["token"](secret), *verb)) == 2
    assert secret not in "".join(capsys.readouterr())
    assert [f for f in home.rglob("*") if f.is_file() and secret.encode() in f.read_bytes()] == []


class Echo(BaseHTTPRequestHandler):
    """A cluster that repeats the login in every answer."""

    def do_GET(self) -> None:
        login = self.headers["Authorization"].partition(" ")[2]
        shown = f"{login} {base64.b64encode(login.encode()).decode()}"
        status = {"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": shown}
        body = json.dumps(status).encode()
        self.send_response(403, shown)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()


@pytest.mark.loopback
@pytest.mark.parametrize(
    "verb",
    [
        "status",
        "why a",
        "logs a",
        "wait a --timeout 1s",
        "cancel a --yes",
        "place show",
        "secret create a --from-file value",
    ],
)
def test_no_verb_prints_its_login_that_a_server_repeats(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    token = secrets.token_hex(20)
    monkeypatch.setenv("XSFT_STATE_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "value").write_text(token[::-1])
    with serving_http(Echo) as server:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", server=server, token=token)))
        for more in ((), ("--json",)):
            with suppress(SystemExit):
                main((*verb.split(), "--context", CONTEXT, *more))
    shown = "".join(capsys.readouterr())
    assert HIDDEN in shown
    assert token not in shown
    assert base64.b64encode(token.encode()).decode() not in shown

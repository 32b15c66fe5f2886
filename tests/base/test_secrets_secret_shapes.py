"""Shapes of secrets: each rule matches its examples and no ordinary text, in bounded time.

Whatever looks like a token is made here, at run time: no file of the repository holds one.
"""

from __future__ import annotations

import json
import re
import secrets
import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.tools.make_secret_rules import python_pattern, rules_text
from xsft.base import secrets as shapes
from xsft.base.secrets import HIDDEN, looks_secret, looks_token, redact

ROOT = Path(__file__).parents[2]
RULES = tomllib.loads(shapes.RULES.read_text(encoding="utf-8"))
PEM = "-----{} PRIVATE" + " KEY-----"


def random(length: int) -> str:
    """Letters and digits, as tokens have them."""
    return "".join(secrets.choice("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789") for _ in range(length))


TOKENS = {
    "Hugging Face": lambda: "hf" + "_" + random(34),
    "Hugging Face, OAuth": lambda: "hf" + "_oauth_" + random(40),
    "OpenAI": lambda: "s" + "k-" + random(48),
    "OpenAI, project": lambda: "s" + "k-proj-" + random(20) + "-" + random(20),
    "Anthropic": lambda: "s" + "k-ant-api03-" + random(40) + "_" + random(40),
    "GitHub": lambda: "gh" + "p_" + random(36),
    "GitHub, fine-grained": lambda: "github" + "_pat_" + random(22) + "_" + random(59),
    "GitLab": lambda: "gl" + "pat-" + random(20),
    "Slack": lambda: "xo" + "xb-123456789012-1234567890123-" + random(24),
    "Docker": lambda: "dckr" + "_pat_" + random(27),
    "npm": lambda: "np" + "m_" + random(36),
    "PyPI": lambda: "py" + "pi-AgE" + random(160),
    "JWT": lambda: ".".join(("ey" + "J" + random(30), "ey" + "J" + random(60), random(43))),
    "JWE": lambda: ".".join(("ey" + "J" + random(30), random(40), random(16), random(80), random(22))),
    "JWE with a shared key": lambda: ".".join(("ey" + "J" + random(30), "", random(16), random(80), random(22))),
    "Google, to refresh": lambda: "1/" + "/0" + random(60),
    "Groq": lambda: "gs" + "k_" + random(52),
    "NVIDIA": lambda: "nv" + "api-" + random(30) + "-" + random(33),
    "W&B": lambda: "wandb" + "_v1_" + random(30) + "_" + random(40),
    "Vault": lambda: "hv" + "s." + random(24),
    "xAI": lambda: "xa" + "i-" + random(80),
    "Google": lambda: "ya" + "29." + random(60),
    "AWS": lambda: "AK" + "IA" + random(16).upper(),
    "Stripe": lambda: "sk" + "_live_" + random(24),
    "a key": lambda: f"{PEM.format('BEGIN')}\n{random(64)}\n{random(64)}\n{PEM.format('END')}",
    "a key without its end": lambda: f"{PEM.format('BEGIN')}\n{random(64)}\n{random(64)}",
    "a key in JSON in JSON": lambda: rf"{PEM.format('BEGIN')}\\n{random(64)}\\n{random(64)}\\n{PEM.format('END')}\\n",
    "a key in JSON": lambda: rf"{PEM.format('BEGIN')}\n{random(64)}\n{random(64)}\n{PEM.format('END')}\n",
}
AROUND = {
    "Authorization: Basic": "Authorization: Basic {}",
    "Authorization: Bearer": "authorization: bearer {}",
    "a header in JSON": '{{"Authorization": "Token {}"}}',
    "a login": "https://user:{}@host/path",
    "a login without a scheme": "proxy=me:{}@proxy:3128",
    "a login with @ in it": "https://user:{}@w@host/path",
    "a login with / in it": "postgres://user:{}/w@host/path",
    "a login without a user": "redis://:{}@host:6379/0",
    "a database": "postgresql+psycopg2://user:{}@host:5432/db",
    "a user that is a token": "https://{}@host/path",
    "Azure's signed URL": "https://a.blob.core.windows.net/c?sv=2024-11-04&sig={}",
    "Google's signed URL": "https://storage.googleapis.com/b/o?X-Goog-Algorithm=A&X-Goog-Signature={}",
    "AWS's signed URL": "https://b.s3.amazonaws.com/o?X-Amz-Security-Token={}&X-Amz-Expires=60",
    "a login in a path": "/home/me/https:/user:{}@host",
    "application default credentials": '{{"client_id": "me", "client_secret": "{}", "type": "authorized_user"}}',
    "a password in JSON in JSON": r'{{"a": "{{\"password\": \"{}\"}}"}}',
    "a quote in a password": r'{{"password": "a\"{}"}}',
    "an assignment": "export DB_PASSWORD='{}' A=b",
    "an assignment after a line": r'{{"script": "a\nMY_TOKEN={}"}}',
    "an argument": "--env=API_KEYS={} --b=c",
    "a storage account": "DefaultEndpointsProtocol=https;AccountName=me;AccountKey={};EndpointSuffix=core",
    "a connection string": "Server=db,1433;User Id=me;Password={};Encrypt=yes",
    "a password with separators": "host=db password=a&b,c{} user=me",
    "a part of a signed URL": "sig={} --docker-image=b",
    "netrc": "machine api.wandb.ai\n  login user\n  password {}\n",
    "netrc in JSON": r"machine api.wandb.ai login user password {}\nmachine b",
    "netrc without a login": "default password {}",
    "a header of JSON": '{{"Authorization": "{}"}}',
    "a query": "GET https://host/path?access_token={}: 403",
}
ORDINARY = (
    *("hf_path=openai/gsm8k", "gs://my-bucket/hf_weights/0/items", "deepseek3-671b", "hf_train_files"),
    *("Bearer of news", "Bearer authentication failed", "basic understanding of the authorization: required"),
    "us-docker.pkg.dev/my-project/xsft/image@sha256:" + "0123456789abcdef" * 4,
    *("docker://ubuntu:22.04@sha256:" + "ab" * 32, "e2c1d3f0-1111-4222-8333-abcdefabcdef", "0123456789" * 4),
    *("ssh://git@github.com/org/repository", "git+https://git@github.com/org/repository@main", "user@example.com"),
    *("https://host:8080/path@v1", "grpc://127.0.0.1:29000", "gs://my-bucket/a@b", "http://[::1]:8080/a@b"),
    *("serviceAccount:train@my-project.iam.gserviceaccount.com", "user:me@example.com", "python:3.12@sha256:ab"),
    *("proxy=me:<password>@host", "git@github.com:org/repository", "12:30:01 host@x", "me:$PW@host"),
    *("https://$(USER):$(PASSWORD)@host", "https://user:${PASSWORD}@host", "https://user:<password>@host"),
    *("https://host/path?page=3&key=name", "https://hub.example/page?sig=", "pad_token=<|fim_pad|>"),
    *("task-specific-instructiontuningdataset", "sk-learn", "risk-assessmentsofeverything", "npm_config_registry=x"),
    *("--xla_tpu_enable_async_collective_fusion_fuse_all_gather=true", "completed step: 12, seconds: 1.23, loss: 0.5"),
    *("google-auth==2.62.2 \\", "hf_access_token=none", "`DB_PASSWORD=`", "--set KEY.PATH=VALUE"),
    *("flops_per_token=12TF", "tokens=12.3M", "num_tokens=[1, 2]"),
    *("pad_token='[PAD]'", "sorted(a, key=first)", "cache_key=jit_step-9ab"),
    *("--docker-image-pull-secret=my-pull", '{"hf_token": {"secret": "hub-2", "key": "t1"}}', "HF_TOKEN=${HF_TOKEN:-}"),
    *("a password was not given: use one", "login with password authentication", "error reading token: not found"),
    *("HuggingFaceH4/ultrachat_200k", "math_qa_formatting", "{{ message['content'] }}", "-----BEGIN CERTIFICATE-----"),
)  # fmt: skip


@pytest.mark.parametrize("name", TOKENS)
def test_token_is_detected_and_redacted_in_any_context(name: str) -> None:
    token = TOKENS[name]()
    longest = max(re.split(r"\s|\\+n", token), key=len)
    for form in ("{}", "see {}, please", 'key="{}"', "https://host/{}/x", '{{"a": "{}"}}', "{}\n{}"):
        text = form.format(token, token)
        assert looks_secret(text)
        shown = redact(text)
        assert longest not in shown
        assert longest[-12:] not in shown
        assert shown.startswith(form.partition("{}")[0].format())
        assert redact(shown) == shown
        assert not looks_secret(shown)


@pytest.mark.parametrize("form", AROUND)
def test_secret_without_a_shape_is_detected_by_its_context(form: str) -> None:
    secret = random(14)
    text = AROUND[form].format(secret)
    assert looks_secret(text)
    shown = redact(text)
    assert secret not in shown
    assert HIDDEN in shown
    assert text.partition(secret)[2].rpartition("/")[2] in shown
    assert redact(shown) == shown
    assert not looks_secret(shown)


@pytest.mark.parametrize("colour", ["\x1b[1;31m", "\x1b[m\x1b[K", r"\u001b[31m", "\x1b]8;;http://a\x1b\\"])
def test_colours_do_not_hide_a_secret_from_redaction(colour: str) -> None:
    """As `grep --color` and rich cut what they highlight."""
    start, end = "hf" + "_", random(34)
    for text in (f"{start}{colour}{end}", f"{colour}{start}{end}{colour}", f"A_TOKEN{colour}={colour}{end}"):
        assert looks_secret(text)
        assert end not in redact(text)
    assert redact(f"a {colour}b") == f"a {colour}b"


@settings(max_examples=200, deadline=None)
@given(
    form=st.sampled_from([*TOKENS, *AROUND]),
    depth=st.integers(0, 3),
    colour=st.sampled_from(["", "\x1b[1m", r"\u001b[0;31m"]),
    beside=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
def test_a_secret_is_hidden_in_documents_within_documents(form: str, depth: int, colour: str, beside: str) -> None:
    """Whatever is beside it and however often it is quoted; the documents stay JSON."""
    secret = random(40)
    text = AROUND[form].format(secret) if form in AROUND else TOKENS[form]()
    longest = secret if form in AROUND else max(re.split(r"\s|\\+n", text), key=len)
    text = f"{beside} {text} {colour}{beside}"
    for _ in range(depth):
        text = json.dumps({"a": text, "b": [beside]}, ensure_ascii=depth > 1)
    shown = redact(text)
    assert longest not in shown
    for _ in range(depth):
        shown = json.loads(shown)["a"]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_no_secret(text: str) -> None:
    assert not looks_secret(text)
    assert redact(text) == text


@pytest.mark.parametrize("id", sorted(RULES))
@settings(max_examples=2, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_gitleaks_rule_matches_its_own_examples(id: str, data: st.DataObject) -> None:
    """gitleaks' rules, as Python reads them. What repeats itself has too little entropy to be a secret."""
    words, pattern = RULES[id]["words"], re.compile(RULES[id]["pattern"], re.ASCII)
    token = data.draw(st.from_regex(pattern, fullmatch=True).filter(lambda t: any(w in t.lower() for w in words)))
    text = f'"{token}"'
    shown = redact(text)
    assert (shown[0], shown[-1]) == ('"', '"')
    assert shown != text or len(set(token)) < 30


def test_gitleaks_patterns_are_converted_to_python() -> None:
    assert python_pattern(r"""\b(p8e-(?i)[a-z0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)""") == (
        r"\b(p8e-(?i:[a-z0-9]{32}))(?![A-Za-z0-9])"
    )
    assert python_pattern(r"(?i)a[)(](b(?i)c)\)d") == r"(?i:a[)(](b(?i:c))\)d)"
    assert python_pattern(r"x[[:alnum:]](?P<n>y)(?:[^\w-]|\z)\z") == r"x[A-Za-z0-9](?:y)(?![\w-])\Z"
    rule = {"id": "kept", "regex": "a{3}", "keywords": ["aaa"], "entropy": 2}
    context = {"id": "left-out", "regex": r"[\w.-]{0,50}?(?:vendor)=(x)", "keywords": ["vendor"]}
    text = rules_text({"rules": [rule, context, {"id": "a-path"}]}, version="v1")
    assert text.endswith("\n[kept]\nwords = [\"aaa\"]\nentropy = 2\npattern = '''a{3}'''\n")
    assert "gitleaks v1 " in text


def test_files_of_this_repository_hold_no_token() -> None:
    files = [f for folder in ("xsft", "docs", "workloads", "tests", "images") for f in (ROOT / folder).rglob("*.*")]
    texts = [f for f in files if f.suffix in {".py", ".md", ".toml", ".yaml", ".txt", ".json", ".jsonl"}]
    assert len(texts) > 300
    assert [str(f) for f in texts if looks_token(f.read_text(encoding="utf-8", errors="replace"))] == []


ALMOST = (
    *("://a:", "://a:b@", "https://a", "-ey" + "J", "ey" + "Ja.", "authorization: ", "bearer ", "xapp" + "-1-"),
    *(
        "a:b@",
        "a:bcd",
        "password=",
        "a='",
        "machine a ",
        "default password ",
        'a_token=\\"',
        "token=a,",
        "\x1b[",
        "a\\",
    ),
    *("hf" + "_", "&sig=", f"{PEM.format('BEGIN')}\\n", "npm" + "_", "q~", "rdme" + "_", "s" + "k-"),
)


@pytest.mark.parametrize("part", ALMOST)
def test_text_similar_to_a_secret_is_scanned_in_linear_time(part: str) -> None:
    """Each has many ways to be read: 100 kB of it, where a quadratic search would take minutes."""
    started = time.process_time()
    redact(part * (100_000 // len(part)))
    redact(part + " " * 100_000)
    assert time.process_time() - started < 5

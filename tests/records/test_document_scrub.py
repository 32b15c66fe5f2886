"""Secrets never reach a record, wherever a user puts them; everything else does, unchanged."""

from __future__ import annotations

import secrets

import pytest

from tests.records.test_document import WHOLE
from tests.replacing import replace
from xsft.base.problems import warning
from xsft.base.secrets import HIDDEN
from xsft.records.document import facts_to_json, read_record, scrub, to_json
from xsft.records.record import AttemptFacts, Record


def token() -> str:
    """Made at run time: no file holds one."""
    return "hf_" + secrets.token_hex(20)


def plain() -> str:
    """A secret without a shape."""
    return "pw" + secrets.token_hex(6)


PLACES = {
    "an environment value": lambda t: {"env": {"WANDB_NOTE": token_in(t)}},
    "a secret name's value": lambda t: {"env": {"DB_PASSWORD": t}},
    "a URL's user": lambda t: {"env": {"PROXY": f"http://{t}@proxy:1"}},
    "a URL's password": lambda t: {"argv": ("python3", f"url=https://me:{t}@host/x")},
    "a URL's query": lambda t: {"argv": (f"https://host/x?a=1&token={t}&b=2",)},
    "a signed URL": lambda t: {"argv": (f"https://host/x?X-Goog-Signature={t}",)},
    "trainer argv": lambda t: {"argv": ("python3", "-m", "m", f"hf_access_token={t}")},
    "the command in the xpk line": lambda t: {"xpk_argv": ("xpk", f"--command=python3 -m m hf_access_token={t} a=b")},
    "xpk's environment flag": lambda t: {"xpk_argv": ("xpk", f"--env=WANDB_API_KEY={t}")},
    "a quoted value": lambda t: {"xpk_argv": ("xpk", f"--command=A=b API_KEY='{t}'")},
    "problem": lambda t: {"problems": (warning("w", "x", f"password={t} is odd", "no"),)},
    "resolved value": lambda t: {"resolved": {"deep": [{"url": f"s3://{t}:x@y"}]}},
    "a variable of any secret's name": lambda t: {"env": {"PGPASS": t, "GITHUB_PAT": t, "app.key": t}},
    "reason of an outcome": lambda t: {"reason": f"GET https://u:{t}@host failed"},
}


def token_in(text: str) -> str:
    return f"see {token()[:3]}{text.removeprefix('pw')}{'0' * 20}"


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_without_a_shape_does_not_reach_a_record(place: str) -> None:
    secret = plain()
    record = replace(WHOLE, attempts=(replace(WHOLE.last, **PLACES[place](secret)),))
    text = to_json(record)
    assert secret.removeprefix("pw") not in text
    assert read_record(text).run_name == WHOLE.run_name


@pytest.mark.parametrize("form", ["{}", "Bearer {}", "http://x/{}", "key={}", '{{"a": "{}"}}'])
def test_a_token_does_not_reach_any_field(form: str) -> None:
    secret = token()
    text = form.format(secret)
    attempt = replace(
        WHOLE.last,
        argv=(text,), env={"A": text}, xpk_argv=(text,), reason=text, user=text, log=text, versions={"a": text},
        resolved={"a": {"b": [text]}}, problems=(warning("w", text, text, text),),
    )  # fmt: skip
    record = Record(run_name="a", output=text, spec={"a": {"b": text}}, attempts=(attempt,))
    assert secret not in to_json(record)
    facts = AttemptFacts(outcome="failed", at="t", reason=text, problems=attempt.problems)
    assert secret not in facts_to_json(facts, run_name="a", number=1)


def test_a_token_does_not_reach_a_key() -> None:
    secret = token()
    attempt = replace(WHOLE.last, env={secret: "1"}, versions={secret: "1"}, resolved={"a": {secret: ["b"]}})
    assert secret not in to_json(Record(run_name="a", output="o", spec={secret: {secret: 1}}, attempts=(attempt,)))


@pytest.mark.parametrize(
    "text",
    [
        "HF_TOKEN_PATH=/xsft/hf/token",
        "--docker-image-pull-secret=my-pull",
        "tokenizer_path=deepseek-ai/DeepSeek-V3",
        "max_target_length=1024",
        "grpc://127.0.0.1:29000",
        "user@example.com and gs://my-bucket/a@b",
        "per_device_batch_size=1 tokenizer_type=huggingface",
        "image@sha256:" + "0" * 64,
    ],
)
def test_values_that_are_no_secret_are_kept(text: str) -> None:
    assert scrub(text) == text


def test_references_to_secrets_are_kept() -> None:
    spec = {
        "secrets": {"hf_token": {"secret": "hf", "key": "token"}},
        "env": {"HF_TOKEN_PATH": "/a", "EMPTY_TOKEN": ""},
    }
    assert scrub(spec) == spec


def test_scrub_hides_secrets_and_keeps_all_other_values() -> None:
    """To the letter: the names, the shape and all other values."""
    secret = plain()
    document = {"env": {"PGPASS": secret, "N": 1}, "list": [1, ("a",)], "none": None}
    assert scrub(document) == {"env": {"PGPASS": HIDDEN, "N": 1}, "list": [1, ["a"]], "none": None}
    assert scrub([{"PGPASS": secret}], key="env") == [{"PGPASS": HIDDEN}]
    assert scrub(f"API_KEY={secret} a=b") == f"API_KEY={HIDDEN} a=b"
    assert scrub(f"X-Goog-Signature={secret}") == f"X-Goog-Signature={HIDDEN}"
    assert scrub(f"--env=DB_PASSWORD={secret}") == f"--env=DB_PASSWORD={HIDDEN}"
    assert scrub("--docker-image-pull-secret=pull --env=A=b") == "--docker-image-pull-secret=pull --env=A=b"

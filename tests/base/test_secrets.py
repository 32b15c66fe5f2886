import base64
from pathlib import Path

import pytest

from tests.base.test_secrets_secret_shapes import random
from xsft.base.secrets import (
    HIDDEN,
    hold_secret,
    is_harmless,
    is_secret_variable,
    looks_secret,
    names_secret,
    names_secret_variable,
    redact,
)
from xsft.catalog.data import catalog_text
from xsft.catalog.releases import is_known, versions
from xsft.catalog.releases import keys as keys_of

WORKLOADS = Path(__file__).parents[2] / "workloads"

# built at run time: no file of the repository holds anything token-shaped
TOKENS = [
    "hf" + "_" + "a1B2" * 8,
    "gh" + "p_" + "x9" * 15,
    "ya" + "29." + "q" * 30,
    "AK" + "IA" + "Z" * 16,
    "Bear" + "er " + "t" * 20,
]


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_are_detected_anywhere_and_redacted(token: str) -> None:
    assert looks_secret(f"x={token}")
    assert token not in redact(f"--arg {token} rest")
    assert "rest" in redact(f"--arg {token} rest")


def test_names_secret_detects_key_paths_of_secrets_only() -> None:
    assert all(map(names_secret, ["env.HF_TOKEN", "secrets.hf_token.key", "env.API_KEY", "password", "env.MYSECRET"]))
    assert not any(map(names_secret, ["model.tokenizer", "train.max_target_length", "data.tokens_per_step"]))
    assert not any(map(names_secret, ["model.pad_token", "overrides.maxtext.reasoning_end_token"]))


NAMED = (
    *("MYSECRET", "GITHUB_PAT", "OPENAI_KEY", "PGPASS", "HFTOKEN", "SSH_PRIVATE_KEY", "AWS_SECRET_ACCESS_KEY"),
    *("DB_PASSWORD", "db-passwd", "KEY_PASSPHRASE", "app.secrets", "MYAPIKEY", "AWS_CREDENTIALS", "SENTRY_DSN"),
    *("AUTHORIZATION", "JWT", "BEARER", "API_KEYS", "TOKEN1", "MYTOKENS", "GITHUB_PATS", "DB_PASSWORDS2", "DB_PW"),
    *("OAUTH2", "STORAGE_ACCOUNTKEY", "SESSION_COOKIE", "HF_TOKEN_PATH", "KEY_FILE", "TOKENS", "NETRC"),
    *("AUTH", "REGISTRY_AUTH", "WANDB_API_KEY", "M_HF_ACCESS_TOKEN", "MYSQL_PWD", "hf_access_token"),
)
UNNAMED = (
    *("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "TOKENIZERS_PARALLELISM", "XLA_FLAGS", "KEYCLOAK_URL", "MONKEY_BARS"),
    *("PIP_INDEX_URL", "HF_HOME", "KEYBOARD", "AUTHOR", "PATTERN", "PASSES", "DESIGN"),
    *("SSL_CERT_FILE", "GOOGLE_CLOUD_PROJECT", "JAX_PLATFORMS", "TPU_STDERR_LOG_LEVEL", "PAD_TOKEN"),
)


@pytest.mark.parametrize("name", NAMED)
def test_names_secret_variable_detects_names_of_secrets(name: str) -> None:
    assert names_secret_variable(name)


@pytest.mark.parametrize("name", UNNAMED)
def test_names_secret_variable_ignores_other_names(name: str) -> None:
    assert not names_secret_variable(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [("MAX_TOKENS", "1024"), ("STOP_TOKENS", "</s>"), ("SSH_AUTH_SOCK", "/tmp/a"), ("AUTH_URL", "https://a")],
)
def test_harmless_values_under_the_name_of_a_secret_pass(name: str, value: str) -> None:
    assert not is_secret_variable(name, value)


@pytest.mark.parametrize("name", ["HF_TOKEN_PATH", "TOKEN_FILE", "SECRET_NAME", "SSH_KEY_DIR", "DB_PASSWORD_FILE"])
def test_a_reference_to_a_secret_must_be_a_path_or_a_name(name: str) -> None:
    for value in ("/xsft/hf/token", "~/.token", "secrets/hub.token", "my-hub-token", "hf-token-2", "$(NAME)"):
        assert not is_secret_variable(name, value)
    for value in (random(12), random(24), f"{random(8)}/{random(8)}", "hunter2"):
        assert is_secret_variable(name, value)


def test_a_secret_that_xsft_holds_is_hidden_by_value() -> None:
    secret = f"{random(5)}/{random(5)}"
    assert redact(f"echo {secret}") == f"echo {secret}"
    assert hold_secret(f"{secret}\n") == f"{secret}\n"
    for echoed in (secret, secret.replace("/", "%2F"), base64.b64encode(secret.encode()).decode()):
        assert redact(f"echo {echoed}, of {echoed}") == f"echo {HIDDEN}, of {HIDDEN}"


@pytest.mark.parametrize("word", ["ab", "secret", "/run/token"])
def test_a_held_secret_that_other_texts_have_by_chance_is_not_hidden(word: str) -> None:
    hold_secret(word)
    assert redact(f"the {word}") == f"the {word}"


def test_only_hf_access_token_among_maxtext_keys_names_a_secret() -> None:
    keys = {key for version in versions() for key in keys_of(version)}
    assert len(keys) > 800
    assert {key for key in keys if names_secret(key) or names_secret(f"overrides.maxtext.{key}")} == {"hf_access_token"}
    assert {key for key in keys if names_secret_variable(f"M_{key.upper()}")} == {"hf_access_token"}
    assert {key for key in keys if looks_secret(f"{key}=hunter2")} == {"hf_access_token"}


@pytest.mark.parametrize("workload", sorted(WORKLOADS.glob("*.yaml")), ids=lambda f: f.stem)
def test_shipped_workloads_hold_no_secret(workload: Path) -> None:
    assert redact(workload.read_text()) == workload.read_text()


@pytest.mark.parametrize(
    "value",
    [
        *("1e-3", "${HF_TOKEN:-}"),
        *("", "0", "1", "-1.5", "true", "off", "/run/secrets/hf", "~/.netrc", "./token", "../a/b", "gs://bucket/file"),
        *("https://keys.example/v1", "$(HF_TOKEN)", "${HF_TOKEN}", "<token>", "projects/p/secrets/s/versions/latest"),
    ],
)  # fmt: skip
def test_is_harmless_accepts_numbers_paths_and_references(value: str) -> None:
    assert is_harmless(value)


@pytest.mark.parametrize("value", ["hunter2", "a b", "correct horse", "/abc+def=", "12ab", "https://u:pw1@host/x"])
def test_is_harmless_rejects_possible_secrets(value: str) -> None:
    assert not is_harmless(value)


def test_harmless_keys_of_the_trainer_are_those_of_its_releases_that_sound_like_secrets() -> None:
    keys = set(catalog_text("release_keys.txt").split()) - {"hf_access_token"}
    keys = {key for key in keys if is_known(key)}
    suspicious = {key for key in keys if names_secret_variable(f"M_{key.upper()}") or names_secret(key)}
    assert suspicious == set()

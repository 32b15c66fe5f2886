import pytest

from xsft.spec.secrets import looks_secret, names_secret, redact

# built at run time: no file of the repository holds anything token-shaped
TOKENS = [
    "hf" + "_" + "a1B2" * 8,
    "gh" + "p_" + "x9" * 15,
    "ya" + "29." + "q" * 30,
    "AK" + "IA" + "Z" * 16,
    "Bear" + "er " + "t" * 20,
]


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_are_seen_anywhere_and_redacted(token: str) -> None:
    assert looks_secret(f"x={token}")
    assert token not in redact(f"--arg {token} rest")
    assert "rest" in redact(f"--arg {token} rest")


@pytest.mark.parametrize(
    "text", ["hf_path", "hf_train_files", "deepseek3-671b", "gs://b/hf_weights/0/items", "Bearer of news"]
)
def test_ordinary_text_is_no_secret(text: str) -> None:
    assert not looks_secret(text)


def test_key_paths_that_name_a_secret() -> None:
    assert all(map(names_secret, ["env.HF_TOKEN", "secrets.hf_token.key", "env.API_KEY", "password"]))
    assert not any(map(names_secret, ["model.tokenizer", "train.max_target_length", "data.tokens_per_step"]))

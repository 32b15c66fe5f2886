"""Secrets in a workload are refused and never shown. Example tokens are made at run time."""

from __future__ import annotations

import pytest

from tests.checks.factory import DROP, ids, problems, spec
from xsft.checks.facts import Facts
from xsft.checks.secrets import check
from xsft.spec.place import PathwaysImages, Place

TOKEN = "h" + "f_" + "A1b2" * 6
SECRET = {"hf_token": {"secret": "hub", "key": "token"}}


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"env": {"NOTE": f"x {TOKEN} y"}}, "env.NOTE"),
        ({"env": {"HF_TOKEN": TOKEN}}, "env.HF_TOKEN"),
        ({"xla_flags": [f"--a={TOKEN}"]}, "xla_flags.0"),
        ({"pathways": {"proxy_args": ["--a=1", f"--b={TOKEN}"]}}, "pathways.proxy_args.1"),
        ({"checks": {"bf16-weights": TOKEN}}, "checks.bf16-weights"),
        ({"model": {"checkpoint": DROP, "hf": {"repo": "a/b", "revision": TOKEN}}}, "model.hf.revision"),
    ],
)
def test_token_in_any_value_is_refused_and_not_shown(changes: dict[str, object], where: str):
    (problem,) = problems(check, spec(**changes))
    assert (problem.id, problem.severity, problem.where) == ("secret-literal", "error", where)
    assert TOKEN not in repr(problem)


def test_token_used_as_a_variable_name_is_refused_and_not_shown():
    (problem,) = problems(check, spec(env={TOKEN: "1"}))
    assert problem.id == "secret-literal"
    assert TOKEN not in repr(problem)


def test_token_in_a_trainer_key_is_left_to_another_check():
    assert ids(check, spec(data={"hf_name": TOKEN})) == set()


def test_login_in_an_environment_value_is_refused():
    (problem,) = problems(check, spec(env={"PIP_INDEX_URL": "https://user:hunter2@host/simple"}))
    assert (problem.id, problem.where) == ("secret-literal", "env.PIP_INDEX_URL")
    assert "hunter2" not in repr(problem)
    assert ids(check, spec(env={"PIP_INDEX_URL": "https://host/simple"})) == set()


def test_token_in_a_named_place_is_refused():
    images = PathwaysImages(scratch=f"gs://my-bucket/{TOKEN}")
    place = Place(project="my-project", zone="us-east5-b", cluster="c", output="gs://my-bucket/o", pathways=images)
    (problem,) = problems(check, spec(place="main"), facts=Facts(places={"main": place}))
    assert (problem.id, problem.where) == ("secret-literal", "place.pathways.scratch")


@pytest.mark.parametrize("name", ["HF_TOKEN", "WANDB_API_KEY", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "PGPASS"])
def test_variable_named_like_a_secret_must_not_have_a_literal_value(name: str):
    (problem,) = problems(check, spec(env={name: "hunter2"}))
    assert (problem.id, problem.where) == ("env-secret", f"env.{name}")
    assert "hunter2" not in repr(problem)
    assert ids(check, spec(env={name: "/var/run/secret"})) == set()


@pytest.mark.parametrize(
    "env",
    [
        {"TOKENIZERS_PARALLELISM": "false"},
        {"MAX_TOKENS": "1024"},
        {"HF_HOME": "/tmp/hf"},
        {"GOOGLE_APPLICATION_CREDENTIALS": "/var/run/key.json"},
        {"KEYCLOAK_URL": "https://login.example/auth"},
        {"PGPASS": "$(FROM_A_SECRET)"},
        {"HF_TOKEN_PATH": "/xsft/hf/token", "SECRET_NAME": "my-hub-token"},
        {"RUN_ID": "0123456789abcdef" * 4},
    ],
)
def test_variable_names_similar_to_those_of_secrets_pass(env: dict[str, str]):
    assert ids(check, spec(env=env)) == set()


def test_gated_repositories_need_a_token():
    gated = {"name": "gemma2-2b", "tokenizer": "google/gemma-2-2b-it", "hf": {"repo": "google/gemma-2-2b"}}
    workload = spec(model={**gated, "checkpoint": DROP})
    assert {(p.id, p.severity, p.where) for p in problems(check, workload)} == {
        ("hub-token-missing", "warning", "model.tokenizer"),
        ("hub-token-missing", "warning", "model.hf.repo"),
    }
    assert ids(check, workload.model_copy(update={"target": "local"})) == set()
    assert ids(check, spec(model={**gated, "checkpoint": DROP}, secrets=SECRET)) == set()


def test_wandb_needs_a_login_or_offline_mode() -> None:
    on = {"maxtext": {"enable_wandb": True}}
    assert ids(check, spec(overrides=on)) == {"wandb-login"}
    assert ids(check, spec(overrides=on, env={"WANDB_MODE": "offline"})) == set()
    assert ids(check, spec(overrides=on, secrets={"env": {"WANDB_API_KEY": {"secret": "wandb"}}})) == set()
    assert ids(check, spec(overrides=on, target="local")) == set()

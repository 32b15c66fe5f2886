"""No secret in a workload, and no message that shows one. Tokens are made here, at run time."""

from __future__ import annotations

import pytest

from tests.checks.factory import DROP, FLAGSHIP, ids, problems, spec
from xsft.checks.secrets import check

TOKEN = "h" + "f_" + "A1b2" * 6
SECRET = {"hf_token": {"secret": "hub", "key": "token"}}


def test_silent_on_good_workloads():
    assert ids(check, spec()) == set()
    assert ids(check, spec(FLAGSHIP)) == set()


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
def test_a_token_anywhere(changes: dict[str, object], where: str):
    (problem,) = problems(check, spec(**changes))
    assert (problem.id, problem.severity, problem.where) == ("secret-literal", "error", where)
    assert TOKEN not in repr(problem)


def test_a_token_taken_for_a_name():
    (problem,) = problems(check, spec(env={TOKEN: "1"}))
    assert problem.id == "secret-literal"
    assert TOKEN not in repr(problem)


def test_a_token_on_the_command_line_is_another_checks():
    assert ids(check, spec(data={"hf_name": TOKEN})) == set()


@pytest.mark.parametrize("name", ["HF_TOKEN", "WANDB_API_KEY", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY"])
def test_names_of_secrets_have_no_literal_values(name: str):
    (problem,) = problems(check, spec(env={name: "hunter2"}))
    assert (problem.id, problem.where) == ("env-secret", f"env.{name}")
    assert "hunter2" not in repr(problem)
    assert ids(check, spec(env={name: "/var/run/secret"})) == set()


@pytest.mark.parametrize("env", [{"TOKENIZERS_PARALLELISM": "false"}, {"MAX_TOKENS": "1024"}, {"HF_HOME": "/tmp/hf"}])
def test_what_only_sounds_like_one(env: dict[str, str]):
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

"""Checks of chat templates and question texts; tests/contract/test_templates.py compares them with MaxText."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.checks.factory import DROP, GOOD, ids, merged, problems, run_of
from xsft.base.problems import Problem
from xsft.checks.facts import Facts
from xsft.checks.template import check
from xsft.spec.facts import TemplateFacts
from xsft.spec.model import WorkloadSpec
from xsft.trainer.arguments import QUESTION_FORMATTER, QUESTION_TEXTS

JINJA = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
QA = {"columns": ["question", "answer"], "hf_path": "openai/gsm8k", "hf_name": "main", "train_split": "train"}
TEXTS = {
    "PROMPT_TEMPLATE": "Solve: {question}",
    "COMPLETION_TEMPLATE": "{reasoning} so {answer}",
    "REASONING_ANSWER_SEPARATOR": "####",
}


def workload(name: str = "chat.jinja", **changes: Any) -> WorkloadSpec:
    data = {"data": {**(QA if name.endswith(".json") else {}), "chat_template": name}}
    return WorkloadSpec.model_validate(merged(merged(GOOD, data), changes))


def file(text: str | dict[str, str]) -> Facts:
    return Facts(template=TemplateFacts(text=text if isinstance(text, str) else json.dumps(text)))


def overriding(**keys: Any) -> WorkloadSpec:
    return WorkloadSpec.model_validate(merged(GOOD, {"overrides": {"maxtext": keys}}))


def only(workload: WorkloadSpec, facts: Facts | None = None) -> Problem:
    (problem,) = problems(check, workload, facts)
    assert problem.fix
    return problem


def test_no_problems_on_good_templates() -> None:
    assert ids(check, workload(), file(JINJA)) == set()
    assert ids(check, workload("qa.json"), file(TEXTS)) == set()
    assert ids(check, workload("qa.json"), file({"chat_template": JINJA, "PROMPT_TEMPLATE": "{question}?"})) == set()
    assert ids(check, workload("qa.json"), file({"COMPLETION_TEMPLATE": "= {answer} {{kept}}"})) == set()
    assert ids(check, WorkloadSpec.model_validate(GOOD)) == set()


@pytest.mark.parametrize("version", ["tutorial-v1.5.0", "0.2.0"])
def test_releases_that_read_templates_only_by_path_refuse_the_field(version: str) -> None:
    problem = only(workload(image={"maxtext": version}), file(JINJA))
    assert (problem.id, problem.severity, problem.where) == ("chat-template-release", "error", "data.chat_template")
    assert "0.2.1" in problem.fix
    texts = only(workload("qa.json", image={"maxtext": version}), file(TEXTS))
    assert (texts.id, texts.where) == ("chat-template-release", "data.chat_template")
    assert "chat_template_path" in texts.fix


def test_question_texts_are_refused_before_maxtext_0_2_2() -> None:
    assert ids(check, workload(image={"maxtext": "0.2.1"}), file(JINJA)) == set()
    assert ids(check, workload("qa.json", image={"maxtext": "0.2.1"}), file(TEXTS)) == {"chat-template-release"}
    assert ids(check, workload("qa.json", image={"maxtext": "0.2.2"}), file(TEXTS)) == set()


def test_a_template_written_as_an_override_is_accepted_with_a_notice() -> None:
    problem = only(overriding(chat_template=JINJA))
    assert (problem.id, problem.severity, problem.where) == (
        "jinja-inline",
        "warning",
        "overrides.maxtext.chat_template",
    )
    assert "data.chat_template" in problem.fix


@pytest.mark.parametrize("pipeline", ["tfds", "synthetic", "olmo_grain"])
def test_template_in_a_pipeline_without_templates_is_refused(pipeline: str) -> None:
    problem = only(workload(overrides={"maxtext": {"dataset_type": pipeline}}), file(JINJA))
    assert (problem.id, problem.severity, problem.where) == ("chat-template-dropped", "error", "data.chat_template")
    assert pipeline in problem.message


def test_grain_reads_jinja_but_no_question_texts() -> None:
    grain = {"overrides": {"maxtext": {"dataset_type": "grain"}}}
    assert ids(check, workload(**grain), file(JINJA)) == set()
    assert ids(check, workload(**grain, image={"maxtext": "0.2.1"}), file(JINJA)) == {"chat-template-dropped"}
    assert ids(check, workload("qa.json", **grain), file(TEXTS)) == {"chat-template-dropped"}
    function = workload(data={"chat_template": DROP, "formatting_func": "my.function"}, **grain)
    assert only(function).where == "data.formatting_func"
    path = {"dataset_type": "grain", "chat_template_path": "/templates/chat.jinja"}
    assert "chat-template-dropped" in ids(check, overriding(**path))


def test_template_of_a_multimodal_run_is_refused() -> None:
    model_section = {"model": {"name": "qwen3-vl-4b", "tokenizer": "Qwen/Qwen3-VL-4B-Instruct"}}
    assert ids(check, workload(**model_section), file(JINJA)) == {"chat-template-dropped"}
    assert ids(check, workload(overrides={"maxtext": {"use_multimodal": True}}), file(JINJA)) == {
        "chat-template-dropped"
    }


@pytest.mark.parametrize(
    "path",
    [
        "gs://my-bucket/chat.jinja",
        "https://example.com/chat.json",
        "chat.jinja",
        "templates/chat.json",
        "maxtext/examples/chat_templates/math_qa.json",
        "/templates/chat.yaml",
        "/templates",
        JINJA,
    ],
)
def test_template_path_that_maxtext_drops_is_refused(path: str) -> None:
    problem = only(overriding(chat_template_path=path))
    assert (problem.id, problem.severity) == ("chat-template-path", "error")
    assert "data.chat_template" in problem.fix


def test_template_path_in_the_image_is_a_warning() -> None:
    problem = only(overriding(chat_template_path="/templates/chat.j2"))
    assert (problem.id, problem.severity) == ("chat-template-path", "warning")
    assert ids(check, overriding(chat_template_path="")) == set()
    texts = "formatting_func_kwargs.template_path"
    assert only(overriding(**{"formatting_func_path": "a.b", texts: "/templates/qa.json"})).severity == "warning"
    assert only(overriding(**{"formatting_func_path": "a.b", texts: "/templates/qa.jinja"})).severity == "error"


def test_template_path_beside_a_template_is_refused() -> None:
    both = workload(overrides={"maxtext": {"chat_template_path": "/templates/chat.j2"}})
    assert (only(both, file(JINJA)).id, only(both, file(JINJA)).severity) == ("chat-template-path", "error")


def test_template_path_of_older_releases_holds_question_texts() -> None:
    """The only way there: MaxText's own file, or one in the image."""
    for version in ("tutorial-v1.5.0", "0.2.0", "0.2.1"):
        image = {"image": {"maxtext": version}}
        for path, severity in (
            ("maxtext/examples/math_qa.json", "warning"),
            ("/a.json", "warning"),
            ("/a.jinja", "error"),
        ):
            spec = WorkloadSpec.model_validate(
                merged(GOOD, {**image, "overrides": {"maxtext": {"chat_template_path": path}}})
            )
            assert only(spec).severity == severity


@pytest.mark.parametrize(
    "text", ["{% for m in messages %}", "{{ messages", "{% break %}{{ x }}", "{% generation %}{{ x }}"]
)
def test_jinja_that_maxtext_cannot_compile_is_refused(text: str) -> None:
    problem = only(workload(), file(text))
    assert (problem.id, problem.where) == ("chat-template-syntax", "data.chat_template")
    assert "line 1" in problem.message


def test_jinja_nested_too_deeply_is_refused() -> None:
    assert only(workload(), file("{{ " + "(" * 20_000 + " }}")).id == "chat-template-syntax"


def test_template_without_jinja_is_refused() -> None:
    assert only(workload(), file("only text")).id == "chat-template-syntax"
    assert ids(check, overriding(chat_template="gs://my-bucket/math_qa.json")) == {
        "chat-template-syntax",
        "jinja-inline",
    }


@pytest.mark.parametrize(
    "texts",
    [
        {"PROMPT_TEMPLATE": "no placeholder"},
        {"PROMPT_TEMPLATE": "{{{question}}}"},
        {"PROMPT_TEMPLATE": "{question} {other}"},
        {"PROMPT_TEMPLATE": "{question} {}"},
        {"PROMPT_TEMPLATE": "{question.__class__}"},
        {"PROMPT_TEMPLATE": "{question:>3}"},
        {"PROMPT_TEMPLATE": "{question!r} {question}"},
        {"PROMPT_TEMPLATE": "{question} }"},
        {"COMPLETION_TEMPLATE": "{reasoning} {answer}"},
        {"COMPLETION_TEMPLATE": "{answer}", "REASONING_ANSWER_SEPARATOR": "####"},
        {"REASONING_ANSWER_SEPARATOR": "####"},
    ],
)
def test_question_texts_that_maxtext_drops_or_fails_on_are_refused(texts: dict[str, str]) -> None:
    problem = only(workload("qa.json"), file(texts))
    assert (problem.id, problem.severity, problem.where) == ("question-template", "error", "data.chat_template")


def test_completion_with_reasoning_needs_the_separator() -> None:
    problem = only(workload("qa.json"), file({"COMPLETION_TEMPLATE": "{reasoning} {answer}"}))
    assert "REASONING_ANSWER_SEPARATOR" in problem.fix


@pytest.mark.parametrize("field", ["columns", "eval_columns"])
def test_question_texts_need_the_columns_question_and_answer(field: str) -> None:
    wrong = workload("qa.json", data={field: ["prompt", "completion"]})
    assert (only(wrong, file(TEXTS)).id, only(wrong, file(TEXTS)).where) == ("question-template", f"data.{field}")
    assert ids(check, workload("qa.json", data={"columns": ["answer", "question"]}), file(TEXTS)) == set()


def test_formatting_function_beside_question_texts_is_refused() -> None:
    problem = only(workload("qa.json", data={"formatting_func": "my.function"}), file(TEXTS))
    assert (problem.id, problem.where) == ("chat-template-dropped", "data.formatting_func")
    assert ids(check, workload(data={"formatting_func": "my.function"}), file(JINJA)) == set()


def test_overrides_of_question_texts_follow_the_same_rules() -> None:
    qa = merged(GOOD, {"data": QA})

    def with_keys(**keys: Any) -> WorkloadSpec:
        return WorkloadSpec.model_validate(merged(qa, {"overrides": {"maxtext": keys}}))

    formatter = {"formatting_func_path": QUESTION_FORMATTER}
    good, bad, unknown = (f"{QUESTION_TEXTS}.{key}" for key in ("PROMPT_TEMPLATE", "COMPLETION_TEMPLATE", "PROMT"))
    assert ids(check, with_keys(**formatter, **{good: "{question}"})) == set()
    assert only(with_keys(**formatter, **{bad: "{reasoning}"})).where == f"overrides.maxtext.{bad}"
    assert only(with_keys(**formatter, **{unknown: "{question}"})).id == "question-template"
    assert only(with_keys(**{good: "{question}"})).id == "chat-template-dropped"


def test_problems_of_template_keys_are_placed_at_the_field() -> None:
    from xsft.checks.trainer_keys import where_of
    from xsft.trainer.maxtext import trainer_keys

    run = run_of(workload("qa.json"), file({**TEXTS, "chat_template": JINJA}))
    placed = [key for key in trainer_keys(run) if where_of(key, run) == "data.chat_template"]
    assert placed == ["formatting_func_path", "chat_template", *(f"{QUESTION_TEXTS}.{key}" for key in TEXTS)]

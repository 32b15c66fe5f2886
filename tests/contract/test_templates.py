"""A template reaches MaxText's pipelines as it stands in its file, and what the checks refuse is dropped there.

The tokens are MaxText's own (tests/pipeline.py); on the way to a pod the command goes through the real xpk and bash.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline import Pipeline, PipelineError
from tests.replacing import replace
from tests.stories import ROOT, facts_for, plans_of, spec_of, varied
from xsft.base.pointers import find_pointer
from xsft.base.problems import errors_in
from xsft.catalog.data import located
from xsft.launcher.encoding import command_in_wrapper, kubernetes_expand
from xsft.planning import api
from xsft.planning.planner import make_intent
from xsft.planning.steps import Intent
from xsft.records.jobset_paths import places
from xsft.spec.base import Value
from xsft.spec.facts import TemplateFacts
from xsft.spec.template import QUESTION_KEYS
from xsft.trainer.arguments import QUESTION_FORMATTER, QUESTION_TEXTS

pytestmark = pytest.mark.contract

HARD = """\
{%- for m in messages %}
# "{{ m['role'] }}": \\n '' {{ "\\t" }} $(date) $$ ${ {{ '$' }}{HOME} `id` env: é 😀\u2028\x85\t{# {{ not printed }} #}
{{ m["content"] | trim }}<|end|>
{%- endfor %}
{% if add_generation_prompt %}# "assistant": \\n '' \t{% endif %}
"""
HARD_WITHOUT_INTERPOLATION = HARD.replace("${ ", "")
MARKED = "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}<|end|>{% endfor %}"
TEXTS = dict(zip(QUESTION_KEYS, ("Think: {question}", "<r>{reasoning}</r> {{=}} {answer}", "####"), strict=True))
ROWS = [
    {"question": " What is 1 plus 2? ", "answer": "1 plus 2 is 3. #### 3"},
    {"question": "How many apples?", "answer": "I have 4. #### 4"},
]
MESSAGES = [
    {"messages": [{"role": "user", "content": row["question"]}, {"role": "assistant", "content": row["answer"]}]}
    for row in ROWS
]
OWN = (
    "<|user|>\n What is 1 plus 2? <|end|>\n<|assistant|>\n1 plus 2 is 3. #### 3<|end|>\n"
    "<|user|>\nHow many apples?<|end|>\n<|assistant|>\nI have 4. #### 4<|end|>\n"
)
"""What the tiny tokenizer's own template makes of both."""


@pytest.fixture
def hf(tmp_path: Path) -> Mapping[str, Value]:
    file = tmp_path / "rows.jsonl"
    rows = ({**row, **message} for row, message in zip(ROWS, MESSAGES, strict=True))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {**TINY, "hf_train_files": str(file)}


@pytest.fixture
def grain(tmp_path: Path, maxtext_pipeline: Pipeline) -> Mapping[str, Value]:
    file = maxtext_pipeline.parquet(ROWS, file=tmp_path / "rows.parquet")
    no_marks = {"add_bos": False, "add_eos": False}  # it would put them around each prompt and each answer
    return {**TINY, "dataset_type": "grain", "grain_file_type": "parquet", "grain_train_files": str(file), **no_marks}


TINY: Mapping[str, Value] = {
    "tokenizer_path": located("xsft://tiny/tokenizer"),
    "tokenizer_type": "huggingface",
    "hf_path": "json",
    "hf_name": None,
    "per_device_batch_size": 1,
    "max_target_length": 512,
    "base_output_directory": "/nowhere",
    "load_parameters_path": "",
}
"""What is here of a workload's data and tokenizer; its model is never built."""


def workload(folder: Path, name: str, text: str, **changes: Any) -> Intent:
    """A workload and its template as files of one folder, read as the command line reads them."""
    data = {"data.chat_template": name, "data.columns": ["question", "answer"], "train.per_device_batch_size": 1}
    spec = varied(spec_of("tiny_local"), {**data, **changes})
    (folder / "w.yaml").write_text(json.dumps(spec.model_dump(mode="json", exclude_none=True)))
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(text.encode())
    (intent,) = api.intend([api.load(folder / "w.yaml")])
    return intent


@pytest.mark.parametrize("pipeline", ["hf", "grain"])
@pytest.mark.parametrize("name", ["chat.jinja", "templates/chat.json"])
def test_a_conversation_is_formatted_by_the_file(
    pipeline: str, name: str, tmp_path: Path, request: pytest.FixtureRequest, maxtext_pipeline: Pipeline
) -> None:
    text = json.dumps({"chat_template": MARKED}) if name.endswith(".json") else MARKED
    intent = workload(tmp_path, name, text)
    assert errors_in(intent.problems) == ()
    (row,) = maxtext_pipeline.rows(intent.trainer_argv, request.getfixturevalue(pipeline))
    assert row.text == "".join(f"[user]{r['question']}<|end|>[assistant]{r['answer']}<|end|>" for r in ROWS)
    assert "".join(row.trained) == "".join(f"[assistant]{r['answer']}<|end|>" for r in ROWS)


@pytest.mark.parametrize("pipeline", ["hf", "grain"])
def test_every_character_of_a_template_counts(
    pipeline: str, tmp_path: Path, request: pytest.FixtureRequest, maxtext_pipeline: Pipeline
) -> None:
    """Against the tokenizer with the same text as its own template, as its maker would ship it."""
    files = request.getfixturevalue(pipeline)
    tokenizer = tmp_path / "tokenizer"
    tokenizer.mkdir()
    for file in Path(located("xsft://tiny/tokenizer")).iterdir():
        (tokenizer / file.name).write_bytes(file.read_bytes())
    config = json.loads((tokenizer / "tokenizer_config.json").read_text())
    config["chat_template"] = HARD_WITHOUT_INTERPOLATION
    (tokenizer / "tokenizer_config.json").write_text(json.dumps(config))
    intent = workload(tmp_path, "chat.jinja", HARD_WITHOUT_INTERPOLATION)
    bare = make_intent(
        varied(spec_of("tiny_local"), {"data.columns": ["question", "answer"]}), facts_for(intent.run.spec)
    )
    (ours,) = maxtext_pipeline.rows(intent.trainer_argv, files)
    (shipped,) = maxtext_pipeline.rows(bare.trainer_argv, {**files, "tokenizer_path": str(tokenizer)})
    assert ours == shipped
    assert "$(date) $$" in ours.text


def test_checks_and_maxtext_refuse_an_interpolation(
    tmp_path: Path, hf: Mapping[str, Value], maxtext_pipeline: Pipeline
) -> None:
    intent = workload(tmp_path, "chat.jinja", MARKED + "${HOME}")
    (problem,) = errors_in(intent.problems)
    assert (problem.id, problem.where) == ("override-interpolation", "data.chat_template")
    with pytest.raises(PipelineError, match="Interpolation"):
        maxtext_pipeline.rows(intent.trainer_argv, hf)
    fixed = workload(tmp_path, "chat.jinja", MARKED + "{{ '$' }}{HOME}")
    assert errors_in(fixed.problems) == ()
    assert "${HOME}" in maxtext_pipeline.rows(fixed.trainer_argv, hf)[0].text


def test_questions_and_answers_get_their_texts(
    tmp_path: Path, hf: Mapping[str, Value], maxtext_pipeline: Pipeline
) -> None:
    intent = workload(tmp_path, "qa.json", json.dumps({**TEXTS, "chat_template": MARKED}))
    assert errors_in(intent.problems) == ()
    (row,) = maxtext_pipeline.rows(intent.trainer_argv, hf)
    assert row.text == (
        "[user]Think: What is 1 plus 2?<|end|>[assistant]<r>1 plus 2 is 3.</r> {=} 3<|end|>"
        "[user]Think: How many apples?<|end|>[assistant]<r>I have 4.</r> {=} 4<|end|>"
    )


def test_the_shipped_gsm8k_workload_trains_on_its_documented_format(
    hf: Mapping[str, Value], maxtext_pipeline: Pipeline
) -> None:
    spec = spec_of("qwen3_gsm8k")
    intent = make_intent(spec, facts_for(spec))
    texts = json.loads((ROOT / "workloads" / str(spec.data.chat_template)).read_text())
    prompt, completion = texts["PROMPT_TEMPLATE"], texts["COMPLETION_TEMPLATE"]
    (row,) = maxtext_pipeline.rows(intent.trainer_argv, hf)
    prompts = [prompt.format(question=row["question"].strip()) for row in ROWS]
    answers = [completion.format(reasoning=r, answer=a) for r, a in (("1 plus 2 is 3.", "3"), ("I have 4.", "4"))]
    pairs = zip(prompts, answers, strict=True)
    assert row.text == "".join(f"<|user|>\n{q}<|end|>\n<|assistant|>\n{a}<|end|>\n" for q, a in pairs)
    assert "".join(row.trained) == "".join(f"{answer}<|end|>\n" for answer in answers)


DROPPED: Mapping[str, tuple[str, Mapping[str, Value]]] = {
    "bucket path": ("chat-template-path", {"chat_template_path": "gs://my-bucket/chat.jinja"}),
    "relative path": ("chat-template-path", {"chat_template_path": "templates/chat.jinja"}),
    "MaxText's own": ("chat-template-path", {"chat_template_path": "maxtext/examples/chat_templates/math_qa.json"}),
    "no placeholder": (
        "question-template",
        {"formatting_func_path": QUESTION_FORMATTER, f"{QUESTION_TEXTS}.PROMPT_TEMPLATE": "Think: question"},
    ),
    "double braces": (
        "question-template",
        {"formatting_func_path": QUESTION_FORMATTER, f"{QUESTION_TEXTS}.PROMPT_TEMPLATE": "Think: {{{question}}}"},
    ),
    "separator only": (
        "question-template",
        {"formatting_func_path": QUESTION_FORMATTER, f"{QUESTION_TEXTS}.REASONING_ANSWER_SEPARATOR": "####"},
    ),
    "no function": ("chat-template-dropped", {f"{QUESTION_TEXTS}.PROMPT_TEMPLATE": "Think: {question}"}),
    "key without text": (
        "question-template",
        {"formatting_func_path": QUESTION_FORMATTER, f"{QUESTION_TEXTS}.PROMT_TEMPLATE": "Think: {question}"},
    ),
}


@pytest.mark.parametrize("name", DROPPED)
def test_values_that_checks_refuse_are_dropped_silently(
    name: str, hf: Mapping[str, Value], maxtext_pipeline: Pipeline
) -> None:
    expected, keys = DROPPED[name]
    changes: Mapping[str, Any] = {f"overrides.maxtext.{key}": value for key, value in keys.items()}
    intent = _qa(changes)
    assert expected in {problem.id for problem in errors_in(intent.problems)}
    (row,) = maxtext_pipeline.rows(intent.trainer_argv, hf)
    assert row.text == OWN


def test_a_path_in_the_image_is_read_and_so_only_a_warning(
    tmp_path: Path, hf: Mapping[str, Value], maxtext_pipeline: Pipeline
) -> None:
    (tmp_path / "chat.jinja").write_text(MARKED)
    intent = _qa({"overrides.maxtext.chat_template_path": str(tmp_path / "chat.jinja")})
    assert errors_in(intent.problems) == ()
    assert maxtext_pipeline.rows(intent.trainer_argv, hf)[0].text.startswith("[user]")


def test_grain_drops_what_only_hf_reads(tmp_path: Path, grain: Mapping[str, Value], maxtext_pipeline: Pipeline) -> None:
    changes: dict[str, Any] = {f"overrides.maxtext.{key}": value for key, value in grain.items() if key not in TINY}
    intent = workload(tmp_path, "qa.json", json.dumps(TEXTS), **changes)
    assert "chat-template-dropped" in {problem.id for problem in errors_in(intent.problems)}
    assert maxtext_pipeline.rows(intent.trainer_argv, grain)[0].text == OWN
    (tmp_path / "image.jinja").write_text(MARKED)
    path = {"overrides.maxtext.chat_template_path": str(tmp_path / "image.jinja")}
    by_path = _qa({**changes, **path})
    assert "chat-template-dropped" in {problem.id for problem in errors_in(by_path.problems)}
    assert maxtext_pipeline.rows(by_path.trainer_argv, grain)[0].text == OWN


STOPPED: Mapping[str, tuple[str, str, str, str]] = {
    "unknown tag": ("chat-template-syntax", "chat.jinja", "{% break %}{{ x }}", "unknown tag 'break'"),
    "open block": ("chat-template-syntax", "chat.jinja", "{% for m in messages %}", "Unexpected end of template"),
    "unknown name": (
        "chat-template-render",
        "chat.jinja",
        "{% for m in messages %}{{ m.a.b }}{% endfor %}",
        "attribute",
    ),
    "other placeholder": ("question-template", "qa.json", '{"PROMPT_TEMPLATE": "{question} {other}"}', "KeyError"),
    "reasoning without separator": (
        "question-template",
        "qa.json",
        '{"COMPLETION_TEMPLATE": "{reasoning} {answer}"}',
        "KeyError",
    ),
    "unmatched brace": ("question-template", "qa.json", '{"PROMPT_TEMPLATE": "{question} }"}', "Single '}'"),
}


@pytest.mark.parametrize("name", STOPPED)
def test_what_the_checks_refuse_stops_maxtext(
    name: str, tmp_path: Path, hf: Mapping[str, Value], maxtext_pipeline: Pipeline
) -> None:
    expected, file, text, complaint = STOPPED[name]
    intent = workload(tmp_path, file, text)
    assert expected in {problem.id for problem in errors_in(intent.problems)}
    with pytest.raises(PipelineError, match=complaint):
        maxtext_pipeline.rows(intent.trainer_argv, hf)


def test_a_misspelt_name_is_refused_and_trains_on_no_answer(
    tmp_path: Path, hf: Mapping[str, Value], maxtext_pipeline: Pipeline
) -> None:
    intent = workload(
        tmp_path, "chat.jinja", "{% for m in messages %}[{{ m['role'] }}]{{ m['contnt'] }}<|end|>{% endfor %}"
    )
    assert {problem.id for problem in errors_in(intent.problems)} == {"chat-template-render"}
    (row,) = maxtext_pipeline.rows(intent.trainer_argv, hf)
    assert "apples" not in row.text


def test_other_columns_are_refused_before_a_formatting_function_sees_them(
    tmp_path: Path, maxtext_pipeline: Pipeline
) -> None:
    (tmp_path / "rows.jsonl").write_text('{"a": "question", "b": "answer"}\n')
    intent = _qa({"data.columns": ["a", "b"], "data.formatting_func": QUESTION_FORMATTER})
    assert "columns" in {problem.id for problem in errors_in(intent.problems)}
    with pytest.raises(PipelineError, match="column names mismatch"):
        maxtext_pipeline.rows(intent.trainer_argv, {**TINY, "hf_train_files": str(tmp_path / "rows.jsonl")})


@pytest.fixture
def python_stub(tmp_path: Path) -> Path:
    """A folder whose python3 writes the argv that the kernel gave it to its standard output, NUL between."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").write_text("#!/bin/bash\ncat /proc/$$/cmdline\n")
    (folder / "python3").chmod(0o755)
    return folder


@pytest.mark.parametrize("mode", ["mcjax", "pathways"])
@pytest.mark.parametrize(
    ("name", "text"), [("chat.jinja", HARD), ("qa.json", json.dumps({**TEXTS, "chat_template": HARD}))]
)
def test_a_pod_gets_the_template_byte_for_byte(
    mode: str, name: str, text: str, xpk_python: Path, python_stub: Path, tmp_path: Path
) -> None:
    """Through the real xpk's templates, YAML, Kubernetes' expansion and bash; the audit says so, too."""
    spec = varied(spec_of("qwen3_gsm8k"), {"mode": mode, "data.chat_template": name, "name": "q"})
    intent = make_intent(spec, replace(facts_for(spec), template=TemplateFacts(text=text)))
    plan = plans_of({"q": intent}, python=xpk_python, scratch=tmp_path)["q"]
    assert [row.outcome for row in plan.audit if row.field == "command"] == ["landed"]
    container = find_pointer(plan.manifest, places(intent.run.mode.value).trainer)[1]
    script = kubernetes_expand(command_in_wrapper(container["command"][2]), {"HOME": "wrong", "date": "wrong"})
    argv = subprocess.run(
        ["bash", "-c", script], env={"PATH": f"{python_stub}:/usr/bin:/bin"}, capture_output=True, check=True
    ).stdout.decode()
    _bash, _stub, *got, _end = argv.split("\0")
    assert tuple(got) == intent.trainer_argv[1:]
    assert any(argument.startswith("chat_template=") for argument in intent.trainer_argv)


def _qa(changes: Mapping[str, Any]) -> Intent:
    spec = varied(spec_of("tiny_local"), {"data.columns": ["question", "answer"], **changes})
    return make_intent(spec, facts_for(spec))

"""Every key xsft puts on a trainer's command line, read by the configuration parser of the pinned MaxText.

Nothing may be refused and nothing ignored: each key must stand in the resulting configuration with the value that the
workload gave it. Values are equal as they are, but for what MaxText's types normalise: a whole number for a float
(`32` is 32.0), and no value for an empty one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import pytest
import yaml

from tests.maxtext import Worker, ask
from tests.stories import FILES, intent_of, spec_of, varied
from xsft.catalog.models import model
from xsft.catalog.releases import DEFAULT, key_ok
from xsft.checks.trainer_keys import FIELD_OF
from xsft.planning.steps import Intent
from xsft.spec.base import Keys, Value
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import Run
from xsft.spec.sections import Axis
from xsft.spec.template import QUESTION_KEYS
from xsft.trainer.arguments import QUESTION_TEXTS
from xsft.trainer.maxtext import trainer_keys

pytestmark = pytest.mark.contract

AXES = tuple(axis for axis in get_args(Axis) if key_ok(f"ici_{axis}_parallelism"))

BASE = "gemma2_ultrachat"
DEEP = "llama31_lora"
"""32 layers, which every pipeline here divides."""

VARIANTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "eval": (BASE, {"eval": {"interval": 50}, "data.hf_eval_split": "test_sft"}),
    "eval-files": (
        BASE,
        {
            "eval": {"interval": 50, "steps": 4, "per_device_batch_size": 2},
            "data.hf_path": "json",
            "data.hf_train_files": "gs://my-bucket/train-*.json",
            "data.hf_eval_files": "gs://my-bucket/eval-*.json",
            "data.columns": ["question", "answer"],
            "data.eval_columns": ["prompt", "completion"],
        },
    ),
    "data": (
        BASE,
        {
            "data.hf_name": "main",
            "data.hf_data_dir": "2026",
            "data.formatting_func": "my_package.formatting.chat",
            "data.packing": False,
            "data.completion_only": False,
            "data.shuffle": False,
            "data.shuffle_seed": 7,
            "data.num_epoch": 3,
        },
    ),
    "grain": (
        BASE,
        {
            "data": {
                "pipeline": "grain",
                "hf_path": "arrayrecord",
                "hf_train_files": "gs://my-bucket/train-*.arrayrecord",
                "hf_eval_files": "gs://my-bucket/eval-*.arrayrecord",
                "columns": ["question", "answer"],
            },
            "eval": {"interval": 10},
        },
    ),
    "question templates": (BASE, {"data.chat_template": "math_qa.json", "data.columns": ["question", "answer"]}),
    "jinja": (
        BASE,
        {"overrides.maxtext.chat_template": "{% for m in messages %}\n\"{{ m['content'] }}\" é{% endfor %}"},
    ),
    "train": (
        BASE,
        {
            "train.gradient_accumulation_steps": 2,
            "train.learning_rate": 1e-05,
            "train.per_device_batch_size": 0.5,
            "train.profiler": "xplane",
            "train.weight_dtype": "float32",
            "model.scan_layers": False,
        },
    ),
    "lora": (
        "llama31_lora",
        {
            "lora.alpha": 0.5,
            "lora.module_path": "decoder/.*(query|value)",
            "lora.weight_qtype": "nf4",
            "lora.restore_path": "gs://my-bucket/adapter",
        },
    ),
    "names that YAML would misread": (BASE, {"name": "on", "data.hf_name": "0123", "data.train_split": "1e5"}),
    "joined splits": (BASE, {"data.train_split": "train + test"}),
    "text": (BASE, {"data.hf_data_dir": "a: b #é 'x' \"y\""}),
    **{f"ici {axis}": (DEEP, {"parallelism.ici": {axis: 8}}) for axis in AXES},
    **{f"dcn {axis}": (DEEP, {"tpu.num_slices": 2, "parallelism.dcn": {axis: 2}}) for axis in AXES},
}


def _cases() -> dict[str, WorkloadSpec]:
    stories = {file.stem: spec_of(file.stem) for file in FILES}
    modes = {
        f"{name} {mode}": varied(spec, {"mode": mode})
        for name, spec in stories.items()
        for mode in ("mcjax", "pathways")
        if spec.target == "xpk" and spec.mode != mode
    }
    return {**stories, **modes, **{f"{n}": varied(spec_of(base), changes) for n, (base, changes) in VARIANTS.items()}}


CASES = _cases()


@pytest.fixture(scope="module")
def intents() -> dict[str, Intent]:
    return {name: intent_of(spec) for name, spec in CASES.items()}


@pytest.fixture(scope="module")
def answers(intents: dict[str, Intent], maxtext: Worker) -> dict[str, Any]:
    jobs = [{"trainer": intent.trainer_argv, "slices": _slices(intent.run)} for intent in intents.values()]
    return dict(zip(intents, ask(jobs, of=maxtext), strict=True))


def _slices(run: Run) -> dict[str, Any]:
    """Ahead-of-time compilation's keys tell MaxText which chips there are; none are here."""
    if run.spec.tpu is None:
        return {}
    return {"compile_topology": run.spec.tpu.type, "compile_topology_num_slices": run.num_slices}


@pytest.mark.parametrize("name", CASES)
def test_maxtext_accepts_every_key_with_its_value(
    name: str, intents: dict[str, Intent], answers: dict[str, Any]
) -> None:
    answer = answers[name]
    assert "error" not in answer, answer["error"]
    assert answer["ignored"] == []
    keys = trainer_keys(intents[name].run)
    assert list(answer["values"]) == list(keys)
    assert _different(keys, answer["values"]) == {}


def test_the_cases_use_every_key_that_a_field_can_become(intents: dict[str, Intent]) -> None:
    used = {key for intent in intents.values() for key in trainer_keys(intent.run)}
    assert {"chat_template", *(f"{QUESTION_TEXTS}.{key}" for key in QUESTION_KEYS)} <= used
    axes = {f"{group}_{axis}_parallelism" for group in ("ici", "dcn") for axis in AXES}
    never_rendered = {"num_slices"}  # MaxText counts the slices it runs on; the field decides how many there are
    assert {key for key in (*FIELD_OF, *axes) if key_ok(key, version=DEFAULT)} - used == never_rendered


def test_maxtext_refuses_an_unknown_key(maxtext: Worker) -> None:
    """The parser that said yes above can say no."""
    argv = intent_of(spec_of(BASE)).trainer_argv
    wrong = ("stepz=5", "steps=abc", "lora.lora_rnk=5", "model_name=gemma2-3b")
    answers = ask([{"trainer": (*argv, argument)} for argument in wrong], of=maxtext)
    assert ["error" in answer for answer in answers] == [True] * len(wrong)


def _converting(name: str) -> WorkloadSpec:
    maxtext_model = model(name)
    hf = {"model.name": name, "model.tokenizer": maxtext_model.hf_id, "model.hf.repo": maxtext_model.hf_id}
    return varied(spec_of("qwen3_gsm8k"), {**hf, **({"model.scan_layers": False} if maxtext_model.unscanned else {})})


CONVERSIONS = {
    "images and text": _converting("qwen3-vl-2b"),
    **{file.stem: spec for file in FILES if (spec := spec_of(file.stem)).model.hf},
    "scan axis": varied(spec_of(BASE), {"overrides.maxtext.param_scan_axis": 0, "model.scan_layers": False}),
    "other weights": varied(
        spec_of(BASE),
        {"model.hf": {"repo": "my-org/gemma", "revision": "v1.0", "converted": "gs://my-bucket/my weights"}},
    ),
}


@pytest.fixture(scope="module")
def conversions(maxtext: Worker) -> dict[str, tuple[tuple[str, ...], Any]]:
    """(argv, what the converter made of it) by name."""
    argvs = {name: intent_of(spec).conversion_argv or () for name, spec in CONVERSIONS.items()}
    answers = ask([{"conversion": argv} for argv in argvs.values()], of=maxtext)
    return {name: (argv, answer) for (name, argv), answer in zip(argvs.items(), answers, strict=True)}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_the_converter_accepts_every_argument(name: str, conversions: dict[str, tuple[tuple[str, ...], Any]]) -> None:
    """Up to where it would read weights: its own flags are known to it, the rest are keys with the values meant."""
    argv, answer = conversions[name]
    assert "error" not in answer, answer["error"]
    assert answer["ignored"] == []
    keys = [argument for argument in argv[3:] if not argument.startswith("--")]
    assert answer["left"] == keys
    meant = {key: yaml.safe_load(value) for key, _, value in (argument.partition("=") for argument in keys)}
    assert _different(meant, answer["values"]) == {}


def test_the_converter_refuses_a_wrong_flag_and_a_wrong_key(maxtext: Worker) -> None:
    argv = intent_of(spec_of(BASE)).conversion_argv or ()
    jobs = [{"conversion": (*argv, wrong)} for wrong in ("--save_dtyp2=bfloat16", "scan_layer=True")]
    assert ["error" in answer for answer in ask(jobs, of=maxtext)] == [True, True]


def test_the_converter_knows_a_source_of_every_array_or_the_check_says_so(maxtext: Worker) -> None:
    intents = [intent_of(_converting(name)) for name in ("qwen3-0.6b", "deepseek3-671b", "qwen3-480b-a35b")]
    stops = ["model-not-convertible" in {problem.id for problem in intent.problems} for intent in intents]
    answers = ask([{"mapping": intent.conversion_argv} for intent in intents], of=maxtext)
    assert ["error" in answer for answer in answers] == stops == [False, True, True], answers


def _different(keys: Keys, values: Mapping[str, Any]) -> dict[str, tuple[Value, Any]]:
    return {key: (value, values[key]) for key, value in keys.items() if not _same(value, values[key])}


def _same(meant: Value, parsed: Any) -> bool:
    if meant is None:
        return parsed in (None, "")
    if isinstance(meant, bool) or isinstance(parsed, bool):
        return meant is parsed
    return bool(meant == parsed)

"""The tiny model, trained with a tokenizer as DeepSeek's (pad = EOS) and with `model.pad_token`: one learns to stop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.localruns import local_plan
from tests.maxtext import environment
from tests.pipeline import with_keys
from tests.tokenizers import tiny
from xsft.catalog.data import located
from xsft.launch.local_machine import Machine
from xsft.launch.local_run import run_local
from xsft.machine import process
from xsft.planning.steps import Plan
from xsft.trainer.tokenizer_copy import split_copying

pytestmark = pytest.mark.trainer

SCRIPT = Path(__file__).parent / "maxtext_next.py"
ANSWERED = "<|user|>\n{question}<|end|>\n<|assistant|>\n{answer}"
QUESTIONS = 12
STEPS = 40


def test_the_model_learns_to_stop_only_where_the_answer_s_end_is_trained(tmp_path: Path, warm_machine: Machine) -> None:
    folder = str(tiny(tmp_path / "tokenizer", pad_token="<|end|>"))
    run_plan = local_plan(tmp_path / "own", model__tokenizer=folder, train__steps=STEPS, train__checkpoint_period=STEPS)
    mended = local_plan(
        tmp_path / "mended",
        model__tokenizer=folder,
        model__pad_token="<|pad|>",
        train__steps=STEPS,
        train__checkpoint_period=STEPS,
    )
    for plan in (run_plan, mended):
        assert run_local(plan, machine=warm_machine, on_event=lambda _: None).outcome == "completed"
    texts = [ANSWERED.format(**json.loads(line)) for line in _rows()[:QUESTIONS]]
    said_own, said_mended = _likeliest([run_plan, mended], texts, machine=warm_machine)
    assert said_own.count("<|end|>") == 0
    assert said_mended.count("<|end|>") >= QUESTIONS * 3 // 4


def _rows() -> list[str]:
    return Path(located("xsft://tiny/chat.jsonl")).read_text(encoding="utf-8").splitlines()


def _likeliest(plans: list[Plan], texts: list[str], *, machine: Machine) -> list[list[str]]:
    folder = Path(plans[0].run.output or "")
    question_file, answered = folder / "asked.json", folder / "answered.json"
    question_file.write_text(json.dumps([{"argv": _trained(plan), "texts": texts} for plan in plans]))
    argv = (*machine.contain().prefix, str(machine.python), "-I", str(SCRIPT), str(question_file), str(answered))
    done = process.run(argv, env=environment(str(folder)), timeout_s=300)
    assert answered.exists(), done.stderr[-3000:]
    return list(json.loads(answered.read_text()))


def _trained(plan: Plan) -> tuple[str, ...]:
    checkpoint = f"{plan.run.output}/{plan.run_name}/checkpoints/{STEPS}/model_params"
    argv = ("python3", *split_copying(plan.trainer_argv[1:])[1])
    return with_keys(argv, {"load_parameters_path": checkpoint})

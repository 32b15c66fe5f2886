"""The evaluate stage and `xsft sample`, with the real MaxText and a model that has memorised its data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.control_plane.ports import free_port
from tests.documents import read_document
from tests.tunedmodels import ANSWER, QUESTION, ROWS, Memorised
from xsft.base.stage import StageEnd
from xsft.catalog.data import located
from xsft.evaluation.inputs import EvaluationPlan
from xsft.evaluation.report import EvaluationReport, evaluation_argv, from_json
from xsft.records.record_files import record_store
from xsft.stages.evaluate import LocalEvaluation
from xsft.stages.evaluate_plan import plan_evaluate, read_report
from xsft.stages.once import do_once, end_of_stage, find_job
from xsft.verbs.cli import main
from xsft.workers.delivery import ARCHIVE, FOLDER_IN_IMAGE, programs_archive, programs_digest

pytestmark = pytest.mark.trainer

JOINED = """
import itertools, jax, sys
import jax.numpy as jnp
from jax._src.distributed import global_state
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec
numbers = itertools.count()
def meet(name):
    global_state.client.wait_at_barrier(f"{{name}}-{{next(numbers)}}", 600_000)
multihost_utils.sync_global_devices = meet
jax.distributed.initialize({at!r}, {hosts}, {host})
mesh = jax.sharding.Mesh(jax.devices(), "all")
ones = jax.make_array_from_callback((mesh.size,), NamedSharding(mesh, PartitionSpec("all")), lambda _: jnp.ones(1))
added = jax.jit(jnp.sum, out_shardings=NamedSharding(mesh, PartitionSpec())).lower(ones).compile()
meet("connect")
added(ones).block_until_ready()
exec(sys.argv.pop(1))
"""
"""Joins a host to the others, then runs the program. Gloo, which connects CPUs in place of the slice's network, waits
only 30 s for another host to connect, which is short on a loaded machine: so they connect at once, and meet otherwise
at the coordinator."""
FORWARD = Path(__file__).parent / "maxtext_forward.py"


def planned(memorised: Memorised) -> EvaluationPlan:
    return plan_evaluate(memorised.plan.run, digest=memorised.plan.spec_digest, file=memorised.file)


def performed(memorised: Memorised, plan: EvaluationPlan) -> StageEnd:
    job = evaluation(memorised, plan)
    return end_of_stage(do_once(job), job.fix)


def evaluation(memorised: Memorised, plan: EvaluationPlan) -> LocalEvaluation:
    return LocalEvaluation(look=lambda: plan, machine=lambda: memorised.machine, progress=lambda _line: None)


@pytest.fixture(scope="module")
def report(memorised: Memorised) -> EvaluationReport:
    plan = planned(memorised)
    assert find_job(evaluation(memorised, plan)).state == "missing"
    end = performed(memorised, plan)
    assert (end.action, end.state) == ("created", "done"), end
    assert end.result is not None
    content = Path(end.result).read_bytes()
    read_document("evaluation", content)
    read = from_json(content)
    assert read is not None
    return read


def test_the_tuned_model_answers_its_data_and_the_base_model_does_not(report: EvaluationReport) -> None:
    assert report.judgement.verdict == "passed"
    assert report.prompts[0][-1].content == QUESTION
    assert len(report.prompts) == 5
    tuned, base = report.tuned.answers[0], report.base.answers[0]
    assert (tuned.text, tuned.ended) == (ANSWER, "stop")
    assert ANSWER not in base.text
    assert report.tuned.rows == report.base.rows == ROWS
    assert report.base.loss is not None
    assert report.tuned.loss is not None
    assert report.base.loss > 5
    assert report.tuned.loss < 0.1


def test_numpy_alone_computes_the_same_tokens_and_loss(report: EvaluationReport, memorised: Memorised) -> None:
    rows = [json.loads(line) for line in (memorised.file.parent / "rows.jsonl").read_text().splitlines()]
    job = {
        "prompts": [f"<|user|>\n{row['question']}<|end|>\n<|assistant|>\n" for row in rows],
        "answers": [f"{row['answer']}<|end|>\n" for row in rows],
        "most": report.max_new_tokens,
        "stop": "<|end|>",
    }
    argv = (
        str(memorised.machine.python),
        "-I",
        str(FORWARD),
        str(memorised.weights),
        located("xsft://tiny/tokenizer"),
    )
    env = {"PATH": os.environ["PATH"], "JAX_PLATFORMS": "cpu", "HOME": str(memorised.file.parent)}
    done = subprocess.run(argv, input=json.dumps(job), capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    printed = json.loads(done.stdout)
    assert printed["tokens"][:5] == [list(answer.tokens) for answer in report.tuned.answers]
    assert report.tuned.loss == pytest.approx(printed["loss"], rel=1e-2)


def test_a_finished_evaluation_is_not_repeated(report: EvaluationReport, memorised: Memorised) -> None:
    plan = planned(memorised)
    before = sorted(Path(plan.output, plan.run_name).rglob("*"))
    end = performed(memorised, plan)
    assert (end.action, end.state) == ("done", "done")
    assert sorted(Path(plan.output, plan.run_name).rglob("*")) == before
    assert find_job(evaluation(memorised, plan)).result == end.result


def test_two_hosts_of_a_cluster_measure_the_same_and_one_writes(
    report: EvaluationReport, memorised: Memorised, tmp_path: Path
) -> None:
    """As in the pods of a slice, whose image carries the program: one command on two hosts, with two devices each. Six
    rows fill no batch of four."""
    here = replace(planned(memorised), directory=str(tmp_path / "result"))
    stem = str(tmp_path / "attempt-1")
    (tmp_path / ARCHIVE).write_bytes(programs_archive())
    named = evaluation_argv(here, end={"attempt": {"attempt": 1}, "attempt_stem": stem}, carried=programs_digest())
    argv = tuple(word.replace(FOLDER_IN_IMAGE, str(tmp_path)) for word in named)
    statuses = measured_by(2, argv, memorised=memorised, folder=tmp_path)
    assert statuses == [0, 0], [(tmp_path / f"host-{host}").read_text()[-3000:] for host in range(2)]
    lines_count = [
        (tmp_path / f"host-{host}").read_text().count(f"xsft evaluate: wrote {here.result}") for host in range(2)
    ]
    assert lines_count == [1, 0]
    assert json.loads(Path(f"{stem}.completed.json").read_text())["outcome"] == "completed"
    evaluation_report = read_report(here, store=record_store({"HOME": str(tmp_path)}))
    assert evaluation_report is not None
    assert evaluation_report.judgement.verdict == "passed"
    assert (evaluation_report.prompts, evaluation_report.worker) == (report.prompts, report.worker)
    assert [reply.tokens for reply in evaluation_report.tuned.answers] == [
        reply.tokens for reply in report.tuned.answers
    ]
    assert (evaluation_report.tuned.rows, evaluation_report.tuned.targets) == (report.tuned.rows, report.tuned.targets)
    assert (evaluation_report.tuned.loss, evaluation_report.base.loss) == pytest.approx(
        (report.tuned.loss, report.base.loss), rel=1e-2
    )


def measured_by(hosts: int, argv: tuple[str, ...], *, memorised: Memorised, folder: Path) -> list[int]:
    """The exit statuses of the hosts, whose output is in `host-0`, `host-1`, …"""
    prefix, address = memorised.machine.contain().prefix, f"127.0.0.1:{free_port()}"
    env = {
        **memorised.machine.env,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "huggingface"),
        "TMPDIR": str(folder),
    }
    running = []
    for host in range(hosts):
        joined = JOINED.format(at=address, hosts=hosts, host=host)
        command = (*prefix, str(memorised.machine.python), "-c", joined, *argv[2:])
        with (folder / f"host-{host}").open("w") as log:
            running.append(subprocess.Popen(command, env=env, cwd=folder, stdout=log, stderr=subprocess.STDOUT))
    return [process.wait(timeout=600) for process in running]


def test_xsft_run_finds_training_and_evaluation_done(
    report: EvaluationReport, memorised: Memorised, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(("run", str(memorised.file))) == 0
    train, evaluate = capsys.readouterr().out.splitlines()
    assert train.startswith("train    done")
    assert evaluate.startswith("evaluate done     memorised-evaluate: verdict passed: 2 of 2 rules hold")
    assert main(("status", "memorised-evaluate", "--json")) == 0
    (row,) = json.loads(capsys.readouterr().out)["runs"]
    assert (row["state"], row["reason"]) == ("succeeded", "")


@pytest.mark.usefixtures("warm_maxtext")
def test_sample_prints_the_answer_of_the_evaluation(report: EvaluationReport, memorised: Memorised) -> None:
    argv = (sys.executable, "-m", "xsft", "sample", "memorised", "--prompt", QUESTION, "--base", "--json")
    done = subprocess.run((*argv, "--max-new-tokens", "24"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = read_document("sample", done.stdout)
    (sample,) = document["samples"]
    assert sample["tuned"]["tokens"] == list(report.tuned.answers[0].tokens)
    assert sample["base"]["tokens"] == list(report.base.answers[0].tokens)

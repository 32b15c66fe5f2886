"""Checks of checkpoints, profiling, restarts, evaluation and accumulation over the steps of a run."""

from __future__ import annotations

from tests.checks.factory import DROP, FLAGSHIP, ids, problems, spec
from xsft.checks.schedule import check_schedule as check

RESTARTING = {"restarts": {"max": 3}}


def test_checkpoint_period_beyond_half_of_the_run_is_a_warning():
    (problem,) = problems(check, spec(train={"checkpoint_period": 251}))
    assert (problem.id, problem.severity) == ("checkpoint-period", "warning")
    assert "250" in problem.fix
    assert ids(check, spec(train={"checkpoint_period": 250})) == set()
    assert ids(check, spec(target="local", train={"checkpoint_period": 500})) == set()


def test_the_profiler_must_start_before_the_last_step():
    assert ids(check, spec(train={"steps": 1, "profiler": "xplane"})) == {"profiler-window"}
    assert ids(check, spec(train={"steps": 2, "profiler": "xplane"})) == set()
    skipping = {"maxtext": {"skip_first_n_steps_for_profiler": 500}}
    assert ids(check, spec(train={"profiler": "xplane"}, overrides=skipping)) == {"profiler-window"}


def test_profiler_with_restarts_is_reported():
    assert "profiler-resume" in ids(check, spec(train={"profiler": "xplane"}, **RESTARTING))
    assert "profiler-resume" not in ids(check, spec(train={"profiler": "xplane"}))


def test_restarts_need_a_fixed_learning_rate_schedule():
    expected = {"schedule-follows-steps"}
    assert ids(check, spec(**RESTARTING)) == expected
    assert ids(check, spec(tpu={"capacity": "spot"})) == expected
    fixed = spec(**RESTARTING, overrides={"maxtext": {"learning_rate_schedule_steps": 500}})
    assert ids(check, fixed) == set()
    assert ids(check, spec(target="local", **RESTARTING)) == set()


def test_legacy_restarts_lose_the_optimizer():
    assert "optimizer-not-saved" in ids(check, spec(image={"maxtext": "tutorial-v1.5.0"}, **RESTARTING))
    assert "optimizer-not-saved" not in ids(check, spec(image={"maxtext": "0.2.0"}, **RESTARTING))


def test_evaluation_of_moe_models_is_reported_for_releases_with_the_bug():
    evaluated = {"eval": {"interval": 10, "steps": 5}, "overrides": {"maxtext": {"eval_interval": DROP}}}
    assert ids(check, spec(FLAGSHIP, overrides={"maxtext": {"eval_interval": 10}})) >= {"moe-eval-crash"}
    assert "moe-eval-crash" in ids(check, spec(FLAGSHIP, **evaluated))
    assert "moe-eval-crash" not in ids(check, spec(FLAGSHIP, image={"maxtext": "0.2.2"}, **evaluated))
    assert ids(check, spec(**evaluated)) == set()


def test_evaluation_needs_a_split():
    gsm8k = {"hf_path": "openai/gsm8k", "hf_name": "main", "train_split": "train", "columns": ["question", "answer"]}
    evaluated = {"interval": 10, "steps": 5}
    assert ids(check, spec(data=gsm8k, eval=evaluated)) == {"eval-split-missing"}
    assert ids(check, spec(data={**gsm8k, "hf_eval_split": "test"}, eval=evaluated)) == set()
    assert ids(check, spec(data={**gsm8k, "hf_eval_files": "gs://my-bucket/x"}, eval=evaluated)) == set()


def test_evaluation_of_a_whole_split_is_reported():
    assert ids(check, spec(eval={"interval": 10})) == {"eval-not-rewound"}


def test_a_target_loss_ends_with_status_1():
    assert ids(check, spec(overrides={"maxtext": {"target_eval_loss": 1.5}})) == {"target-eval-loss"}
    assert ids(check, spec(overrides={"maxtext": {"target_eval_loss": 0.0}})) == set()


def test_gradient_accumulation_is_refused_in_the_legacy_trainer():
    four = {"gradient_accumulation_steps": 4}
    assert ids(check, spec(train=four, image={"maxtext": "tutorial-v1.5.0"})) == {"gradient-accumulation-legacy"}


def test_gradient_accumulation_needs_a_newer_tunix():
    """The trainer itself says so in tests/contract/test_local_trainer.py."""
    (problem,) = problems(check, spec(train={"gradient_accumulation_steps": 4}))
    assert (problem.id, problem.severity) == ("gradient-accumulation-tunix", "error")
    assert ids(check, spec(train={"gradient_accumulation_steps": 1})) == set()


def test_bfloat16_weights_without_lora_are_a_warning():
    bf16 = {"weight_dtype": "bfloat16"}
    (problem,) = problems(check, spec(train=bf16))
    assert (problem.id, problem.severity) == ("bf16-weights", "warning")
    assert "2e-05" in problem.message
    assert ids(check, spec(train=bf16, lora={"rank": 8, "alpha": 16})) == set()


def test_evaluations_longer_than_the_training_are_a_warning():
    """500 steps; one evaluation before the first, then one each interval."""
    data_section = {"hf_eval_split": "test_sft"}
    reported = problems(check, spec(data=data_section, eval={"interval": 5, "steps": 16}))
    assert [(p.id, p.severity, p.where) for p in reported] == [("eval-outlasts-training", "warning", "eval.interval")]
    assert "101 evaluations of 16 batches take about 1.1 times" in reported[0].message
    assert ids(check, spec(data=data_section, eval={"interval": 5, "steps": 14})) == set()
    assert ids(check, spec(data=data_section, eval={"interval": 50, "steps": 16})) == set()
    twice = {"interval": 5, "steps": 8, "per_device_batch_size": 2}
    assert ids(check, spec(data=data_section, eval=twice)) == {"eval-outlasts-training"}

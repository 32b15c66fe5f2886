"""Checks of LoRA: weight types, attention, module paths, releases and scale."""

from __future__ import annotations

from tests.checks.factory import FLAGSHIP, ids, problems, spec
from xsft.checks.lora import check_lora as check

LORA = {"lora": {"rank": 16, "alpha": 32}, "train": {"weight_dtype": "bfloat16"}}


def test_good_workloads_with_and_without_lora_have_no_problems():
    assert ids(check, spec()) == set()
    assert ids(check, spec(FLAGSHIP)) == set()
    assert ids(check, spec(**LORA)) == set()


def test_lora_with_float32_weights_is_refused():
    (problem,) = problems(check, spec(lora=LORA["lora"]))
    assert (problem.id, problem.severity, problem.where) == ("lora-float32", "error", "train.weight_dtype")
    assert ids(check, spec(lora=LORA["lora"], overrides={"maxtext": {"dtype": "float32"}})) == set()


def test_lora_with_flash_attention_is_refused():
    assert ids(check, spec(**LORA, overrides={"maxtext": {"attention": "flash"}})) == {"lora-flash"}
    assert ids(check, spec(**LORA, overrides={"maxtext": {"attention": "autoselected"}})) == set()


def test_lora_of_deepseek3_needs_the_suggested_module_path():
    missing = spec(FLAGSHIP, **LORA, overrides={"maxtext": {"attention": "autoselected"}})
    (problem,) = problems(check, missing)
    assert (problem.id, problem.severity) == ("lora-module-path", "error")
    path = problem.fix.split("'")[1]
    workload = spec(
        FLAGSHIP,
        lora={**LORA["lora"], "module_path": path},
        train=LORA["train"],
        overrides={"maxtext": {"attention": "autoselected"}},
    )
    assert ids(check, workload) == {"lora-attention-only"}


def test_lora_of_a_model_without_a_known_pattern_is_reported():
    kimi = {"name": "kimi-k2-1t", "tokenizer": "moonshotai/Kimi-K2-Base"}
    assert ids(check, spec(**LORA, model=kimi)) == {"lora-module-path-unknown"}


def test_lora_is_refused_before_maxtext_0_2_3():
    assert ids(check, spec(**LORA, image={"maxtext": "0.2.2"})) == {"lora-release"}
    assert ids(check, spec(**LORA, image={"maxtext": "0.2.3"})) == set()


def test_maxtext_0_2_3_cannot_restore_adapters_under_pathways():
    lora = {**LORA["lora"], "restore_path": "gs://my-bucket/a/checkpoints/2/model_params", "module_path": "decoder/.*"}

    def said(version: str, **changes: object) -> set[str]:
        return ids(check, spec(lora=lora, train=LORA["train"], image={"maxtext": version}, **changes))

    assert said("0.2.3", mode="pathways") == {"lora-restore-pathways"}
    assert said("0.2.3", mode="mcjax") == said("0.2.4", mode="pathways") == set()


def test_lora_alpha_far_above_the_rank_is_reported() -> None:
    assert "lora-scale" in ids(check, spec(**{**LORA, "lora": {"rank": 8, "alpha": 512}}))
    assert "lora-scale" not in ids(check, spec(**{**LORA, "lora": {"rank": 8, "alpha": 128}}))

"""Each check fires where it should and is silent where it should be."""

from __future__ import annotations

from tests.checks.factory import FLAGSHIP, ids, problems, spec
from xsft.checks.lora import check

LORA = {"lora": {"rank": 16, "alpha": 32}, "train": {"weight_dtype": "bfloat16"}}


def test_no_problems_without_adapters_and_on_good_ones():
    assert ids(check, spec()) == set()
    assert ids(check, spec(FLAGSHIP)) == set()
    assert ids(check, spec(**LORA)) == set()


def test_float32_weights():
    (problem,) = problems(check, spec(lora=LORA["lora"]))
    assert (problem.id, problem.severity, problem.where) == ("lora-float32", "error", "train.weight_dtype")
    assert ids(check, spec(lora=LORA["lora"], overrides={"maxtext": {"dtype": "float32"}})) == set()


def test_flash_attention():
    assert ids(check, spec(**LORA, overrides={"maxtext": {"attention": "flash"}})) == {"lora-flash"}
    assert ids(check, spec(**LORA, overrides={"maxtext": {"attention": "autoselected"}})) == set()


def test_deepseek3_needs_a_module_path_and_the_message_gives_it():
    missing = spec(FLAGSHIP, **LORA, overrides={"maxtext": {"attention": "autoselected"}})
    (problem,) = problems(check, missing)
    assert (problem.id, problem.severity) == ("lora-module-path", "error")
    path = problem.fix.split("'")[1]
    given = spec(
        FLAGSHIP,
        lora={**LORA["lora"], "module_path": path},
        train=LORA["train"],
        overrides={"maxtext": {"attention": "autoselected"}},
    )
    assert ids(check, given) == {"lora-attention-only"}


def test_models_without_a_pattern_of_their_own():
    kimi = {"name": "kimi-k2-1t", "tokenizer": "moonshotai/Kimi-K2-Base"}
    assert ids(check, spec(**LORA, model=kimi)) == {"lora-module-path-unknown"}


def test_lora_came_with_0_2_3():
    assert ids(check, spec(**LORA, image={"maxtext": "0.2.2"})) == {"lora-release"}
    assert ids(check, spec(**LORA, image={"maxtext": "0.2.3"})) == set()


def test_adapters_restored_under_pathways_by_the_first_release_with_lora():
    lora = {**LORA["lora"], "restore_path": "gs://my-bucket/a/checkpoints/2/model_params", "module_path": "decoder/.*"}

    def said(version: str, **changes: object) -> set[str]:
        return ids(check, spec(lora=lora, train=LORA["train"], image={"maxtext": version}, **changes))

    assert said("0.2.3", mode="pathways") == {"lora-restore-pathways"}
    assert said("0.2.3", mode="mcjax") == said("0.2.4", mode="pathways") == set()


def test_an_alpha_far_above_the_rank() -> None:
    assert "lora-scale" in ids(check, spec(**{**LORA, "lora": {"rank": 8, "alpha": 512}}))
    assert "lora-scale" not in ids(check, spec(**{**LORA, "lora": {"rank": 8, "alpha": 128}}))

"""Problems of headers, configuration, values and logits."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from xsft.weights.export_record import LOGITS_BOUNDS, LogitsVerdict
from xsft.workers.export_judging import (
    TensorHeader,
    base_problems,
    config_problems,
    header_problems,
    logits_problems,
    values_problems,
)

EXPECTED: dict[str, tuple[int, ...]] = {"embed": (8, 4), "norm": (4,)}


def headers(**changes: Any) -> dict[str, TensorHeader]:
    shapes = {name: shape for name, shape in {**EXPECTED, **changes}.items() if shape}
    return {name: TensorHeader(dtype="BF16", shape=shape, begin=0, end=0) for name, shape in shapes.items()}


def test_the_expected_tensors_pass() -> None:
    assert not list(header_problems(headers(), expected=EXPECTED, dtype="bfloat16"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"norm": None}, "1 tensors are missing: norm"),
        ({"lm_head": (8, 4)}, "1 tensors are not the model's: lm_head"),
        ({"embed": (4, 8)}, "1 tensors have another shape: embed [4, 8] instead of [8, 4]"),
    ],
)
def test_wrong_tensors_are_named(changes: dict[str, Any], said: str) -> None:
    assert list(header_problems(headers(**changes), expected=EXPECTED, dtype="bfloat16")) == [said]


def test_another_data_type_is_named() -> None:
    (said,) = header_problems(headers(), expected=EXPECTED, dtype="float32")
    assert said == "2 tensors are not float32: embed BF16, norm BF16"


@pytest.mark.parametrize(
    ("tied", "names", "count"),
    [(True, {}, 0), (True, {"lm_head.weight": 1}, 1), (False, {}, 1), (False, {"lm_head.weight": 1}, 0), (None, {}, 0)],
)
def test_output_layer_must_be_tied_or_present(tied: bool | None, names: dict[str, object], count: int) -> None:
    config = {} if tied is None else {"tie_word_embeddings": tied}
    assert len(list(config_problems(config, names=names))) == count


def worker(**changes: Any) -> dict[str, Any]:
    return {"compared": 3, "wrong": [], "unread": [], "unexported": [], "changed": 1, **changes}


def test_equal_values_pass_and_differing_ones_are_counted() -> None:
    assert not list(values_problems(worker()))
    wrong = [{"name": f"t{n}", "differing": 2, "values": 8} for n in range(7)]
    (said,) = values_problems(worker(wrong=wrong))
    assert said.startswith("7 tensors differ from the checkpoint: t0 (2 of 8 values), ")
    assert said.endswith(", and 2 more")


@pytest.mark.parametrize("changes", [{"compared": 0}, {"unread": ["norm (KeyError)"]}, {"unexported": ["params-x"]}])
def test_comparison_with_missing_tensors_fails(changes: dict[str, Any]) -> None:
    assert len(list(values_problems(worker(**changes)))) == 1


def test_an_export_that_equals_its_base_fails() -> None:
    assert list(base_problems(worker(changed=0)))
    assert not list(base_problems(worker(changed=None)))


VERDICT = LogitsVerdict(greatest_difference=1e-5, greatest_logit=1.0, positions=5, same_argmax=5, engine="mlx-lm 0")


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (VERDICT, None),
        (replace(VERDICT, differing=2, worst=("token 3 of prompt 1 by 0.5",)), "2 of 5 positions by more than 0.0005"),
        (replace(VERDICT, differing=2, worst=("token 3 of prompt 1 by 0.5",)), "token 3 of prompt 1 by 0.5"),
        (replace(VERDICT, positions=0, unloaded="KeyError: 'x'"), "mlx-lm 0 cannot load the export: KeyError: 'x'"),
    ],
    ids=["all agree", "number of positions", "the worst position", "not loaded"],
)
def test_logits_that_differ_are_described(verdict: LogitsVerdict, words: str | None) -> None:
    said = "; ".join(logits_problems(to_builtins(verdict), bound=LOGITS_BOUNDS["bfloat16"]))
    assert (words or "") in said
    assert bool(said) == (words is not None)

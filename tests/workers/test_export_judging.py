"""Problems of headers, configuration, values and logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from tests.hfmodels import write_safetensors
from xsft.weights.export_record import LOGITS_BOUNDS, LogitsVerdict
from xsft.workers.export_judging import (
    LENGTH_BYTES,
    TensorHeader,
    base_problems,
    config_problems,
    header_length,
    header_problems,
    logits_problems,
    parse_header,
    values_problems,
)

EXPECTED: dict[str, tuple[int, ...]] = {"embed": (8, 4), "norm": (4,)}


def headers(**changes: Any) -> dict[str, TensorHeader]:
    shapes = {name: shape for name, shape in {**EXPECTED, **changes}.items() if shape}
    return {name: TensorHeader(dtype="BF16", shape=shape, begin=0, end=0) for name, shape in shapes.items()}


def test_the_expected_tensors_pass() -> None:
    assert not list(header_problems(headers(), expected=EXPECTED, dtype="bfloat16"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": None}, "1 tensors are missing: norm"),
        ({"lm_head": (8, 4)}, "1 tensors are not the model's: lm_head"),
        ({"embed": (4, 8)}, "1 tensors have another shape: embed [4, 8] instead of [8, 4]"),
    ],
)
def test_wrong_tensors_are_named(changes: dict[str, Any], message: str) -> None:
    assert list(header_problems(headers(**changes), expected=EXPECTED, dtype="bfloat16")) == [message]


def test_another_data_type_is_named() -> None:
    (problem,) = header_problems(headers(), expected=EXPECTED, dtype="float32")
    assert problem == "2 tensors are not float32: embed BF16, norm BF16"


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
    (problem,) = values_problems(worker(wrong=wrong))
    assert problem.startswith("7 tensors differ from the checkpoint: t0 (2 of 8 values), ")
    assert problem.endswith(", and 2 more")


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
    text = "; ".join(logits_problems(to_builtins(verdict), bound=LOGITS_BOUNDS["bfloat16"]))
    assert (words or "") in text
    assert bool(text) == (words is not None)


def parsed(content: bytes) -> dict[str, TensorHeader]:
    length = header_length(content)
    body = content[LENGTH_BYTES:]
    return parse_header(body[:length], data_bytes=len(body) - length)


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    write_safetensors(tmp_path / "a", {"w": np.zeros((2, 3), np.float32), "n": np.ones(4, np.float32)})
    return (tmp_path / "a").read_bytes()


def test_header_gives_names_shapes_types_and_byte_ranges(content: bytes) -> None:
    assert parsed(content) == {
        "w": TensorHeader(dtype="BF16", shape=(2, 3), begin=0, end=12),
        "n": TensorHeader(dtype="BF16", shape=(4,), begin=12, end=20),
    }


def test_truncated_file_error_names_the_tensor(content: bytes) -> None:
    with pytest.raises(ValueError, match="n ends at byte 20 of 19: the file is cut off"):
        parsed(content[:-1])


@pytest.mark.parametrize("broken", [b"", b"\0" * 16, b"\xff" * 16])
def test_other_content_is_refused_as_no_safetensors_file(broken: bytes) -> None:
    with pytest.raises(ValueError, match="not a safetensors file"):
        parsed(broken)


def test_bytes_that_do_not_fit_the_shape_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="w has 12 bytes, which do not fit its shape"):
        parsed(content.replace(b"[2, 3]", b"[2, 4]"))

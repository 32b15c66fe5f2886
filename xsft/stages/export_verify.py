"""Verifies an exported folder: its headers here, its values and logits in the environments that can read them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from xsft.environments.installed import BuiltEnvironment
from xsft.machine.chance import random_hex
from xsft.machine.regular import open_regular
from xsft.spec.export_inputs import ExportDtype
from xsft.stages.export_work import ExportShop, ask_worker, reads_bucket
from xsft.stages.exported import sizes_in
from xsft.weights.export_plan import ExportPlan
from xsft.weights.export_verification import LOGITS_BOUNDS, LogitsVerdict, Verification, logits_problems
from xsft.weights.exporter import COMPARER, comparison_job, logits_argv, merged_dtype
from xsft.workers.export_judging import ReadPart, judged

PROMPTS = ("What is 2 + 3?", "Name a colour of the sky.", "Write one short sentence about the sea.")
"""Prompts whose logits are compared."""
LENGTH = 32
"""Tokens of each prompt that are compared, at most."""


def verify(plan: ExportPlan, shop: ExportShop) -> Verification:
    """Compare the folder of this attempt with the checkpoint; raises as `ask_worker`."""
    (found,) = verify_folders(plan, (Path(plan.directory),), shop)
    return found


def verify_folders(plan: ExportPlan, folders: Iterable[Path], shop: ExportShop) -> tuple[Verification, ...]:
    """Compare several folders with the checkpoint by one start of MaxText."""
    listed = tuple(folders)
    job = comparison_job(plan, folders=tuple(map(str, listed)), seed=int(random_hex(4), 16))
    answer = ask_worker(COMPARER, job, shop, online=reads_bucket(plan))
    return tuple(_judge_folder(plan, path, answer, one) for path, one in zip(listed, answer["folders"], strict=True))


def verify_logits(
    plan: ExportPlan, folders: Iterable[Path], shop: ExportShop, *, engine: BuiltEnvironment
) -> tuple[LogitsVerdict, ...]:
    """Compare the logits of the checkpoint in MaxText with those of each folder in the engine, all in float32."""
    listed = tuple(folders)
    inputs = plan.inputs
    return compare_logits(
        logits_argv(plan),
        listed,
        shop,
        engine=engine,
        dtype=inputs.dtype,
        merged=merged_dtype(inputs),
        online=reads_bucket(plan),
    )


def compare_logits(
    argv: tuple[str, ...],
    folders: tuple[Path, ...],
    shop: ExportShop,
    *,
    engine: BuiltEnvironment,
    dtype: str,
    merged: ExportDtype | None = None,
    online: bool = False,
) -> tuple[LogitsVerdict, ...]:
    """Compare the logits of MaxText's command `argv` with those of each folder in the engine. `dtype`: of the weights;
    `online`: whether MaxText reads them from a bucket."""
    file = shop.scratch / "logits.npz"
    tokens = {"tokenizer": str(folders[0]), "prompts": list(PROMPTS), "length": LENGTH}
    question = {"argv": list(argv), "merged": merged, "file": str(file), **tokens}
    ask_worker("xsft.workers.compute_logits", question, shop, online=online)
    job = {"folders": list(map(str, folders)), "file": str(file), "bound": LOGITS_BOUNDS[dtype]}
    answer = ask_worker("xsft.workers.compare_logits", job, shop, python=engine.python)
    name = f"mlx-lm {engine.version}"
    return tuple(LogitsVerdict(**{**one, "worst": tuple(one["worst"])}, engine=name) for one in answer["folders"])


def with_logits(found: Verification, verdict: LogitsVerdict, *, dtype: ExportDtype) -> Verification:
    problems = logits_problems(verdict, bound=LOGITS_BOUNDS[dtype])
    return replace(found, logits=verdict, problems=(*found.problems, *problems))


def read_folder(folder: Path) -> tuple[dict[str, int], ReadPart]:
    """Return the sizes of a folder's files, and the function that reads them."""

    def read(name: str, start: int, count: int) -> bytes:
        with open_regular(folder / name) as file:
            file.seek(start)
            return file.read(count)

    return sizes_in(folder), read


def _judge_folder(plan: ExportPlan, folder: Path, answer: dict[str, Any], one: dict[str, Any]) -> Verification:
    try:
        sizes, read = read_folder(folder)
        return Verification(**judged(sizes, read, answer=answer, of=one, dtype=plan.inputs.dtype))
    except OSError as wrong:
        return Verification(problems=(str(wrong),))

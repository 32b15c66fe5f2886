"""The log line that explains why a process died."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.states.rules import groups
from xsft.trainers.failures import ECHOES, OWN, diagnose, signature

ABSL = "E1121 11:57:01.123456     140 pyconfig.py:394] "
HEARTBEAT = (
    "F1121 12:00:01.000000    17 client.h:80] Terminating process because the JAX distributed service detected fatal"
    " errors. This most likely indicates that another task died; see the other task logs for more details."
)

# Lines as the programs print them; MaxText's of 0.2.5, run on a CPU or read in its source.
LOADING = (
    "Traceback (most recent call last):",
    '  File "/x/site-packages/maxtext/input_pipeline/hf_data_processing.py", line 512, in make_hf_train_iterator',
    "    train_ds = datasets.load_dataset(",
)
"""As the real trainer ended with an empty file (maxtext@0.2.5, datasets@5.2.0)."""
LINES: list[tuple[str, tuple[str, ...], str]] = [
    (
        "config-error",
        (f"{ABSL}MAXTEXT CONFIG ERROR: 'stepz' not in 'steps', 'x'.", "ValueError: 'stepz'"),
        "MaxText does not know",
    ),
    (
        "not-a-number",
        ("I1 x] Aborting training due to NaN loss.", "SystemExit: 1"),
        "MaxText stopped because of NaN loss",
    ),
    (
        "hbm",
        (
            "jaxlib._jax.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error.",
            "Ran out of memory in memory space hbm. Used 38.75G of 31.25G hbm. Exceeded hbm capacity by 7.50G.",
        ),
        "RESOURCE_EXHAUSTED",
    ),
    (
        "checkpoint-missing",
        ("ValueError: No valid Orbax checkpoint found at 'gs://b/c/0'. Please check it.",),
        "gs://b/c/0",
    ),
    (
        "checkpoint-scan-layers",
        ("ValueError: Configuration mismatch: Your run specifies scan_layers=False, but the checkpoint …",),
        "scan_layers=False",
    ),
    ("checkpoint-ocdbt", ("ValueError: OCDBT not supported for Pathways.",), "OCDBT"),
    (
        "checkpoint-shape",
        ("ValueError: Cannot align axis 1 (logical='layers'): model_dim=4 not divisible by ckpt_dim=28, …",),
        "ckpt_dim=28",
    ),
    ("chat-template", ("ValueError: Unable to apply chat template to messages",), "chat template"),
    ("data-columns", ("AssertionError: Dataset column names mismatch. Expected columns …",), "Expected columns"),
    ("data-unreadable", ("RuntimeError: Failed to load data after 30 retry attempts",), "30 retry"),
    ("profiler-steps", ("ValueError: First profile step 5 set higher than total steps",), "First profile step"),
    (
        "hub-denied",
        (
            "huggingface_hub.errors.GatedRepoError: 401 Client Error. Cannot access gated repo for url https://huggingface.co/m",
        ),
        "gated repo",
    ),
    (
        "hub-not-found",
        ("huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error. Repository Not Found for url: …",),
        "Repository Not Found",
    ),
    (
        "hub-busy",
        ("requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/api/x",),
        "Too Many Requests",
    ),
    (
        "bucket-denied",
        ("google.api_core.exceptions.Forbidden: 403 GET https://x: a@b does not have storage.objects.get access",),
        "storage.objects.get",
    ),
    (
        "tpu-init",
        ("RuntimeError: Unable to initialize backend 'tpu': INTERNAL: Failed to get global TPU topology.",),
        "topology",
    ),
    ("data-empty", (*LOADING, "StopIteration", "Exception ignored in atexit", "RuntimeError: at shutdown"), "no rows"),
    (
        "data-empty",
        (*LOADING, "ValueError: Column name ['messages'] not in the dataset. Columns in the dataset: []."),
        "no rows",
    ),
    ("data-empty", (*LOADING, 'ValueError: Instruction "train" corresponds to no data!'), "no rows"),
    ("exception", ("Traceback (most recent call last):", '  File "x.py", line 1', "StopIteration"), "StopIteration"),
    ("module-missing", ("/usr/bin/python3: No module named maxtext.trainers",), "maxtext.trainers"),
    ("module-missing", ("ModuleNotFoundError: No module named 'tunix'",), "tunix"),
    ("command-missing", ("bash: line 1: python3: command not found",), "python3"),
    ("exception", ("Traceback (most recent call last):", "KeyError: 'model_params'"), "KeyError: 'model_params'"),
    (
        "data-ended",
        ("I1120 07:58:31.314470 17 hooks.py:219] Exception in load_next_train_batch: You may have run out",),
        "You may have run out",
    ),
    ("dcn-timeout", ("E1 x.cc:1] Megascale transport: DEADLINE_EXCEEDED while waiting for slice 1",), "slice 1"),
    ("peer-lost", (HEARTBEAT,), "another task died"),
    (
        "peer-lost",
        ("jaxlib._jax.XlaRuntimeError: UNAVAILABLE: Task /job:jax_worker/replica:0/task:3 heartbeat timeout.",),
        "task:3",
    ),
    (
        "told-to-stop",
        ("I1120 07:48:25.599753      17 preemption_sync_manager.cc:169] Received preemption notice with death_time x",),
        "preemption notice",
    ),
]


@pytest.mark.parametrize(("kind", "lines", "quoted"), LINES, ids=[f"{n} {line[0]}" for n, line in enumerate(LINES)])
def test_diagnose_recognises_each_failure_by_its_line(kind: str, lines: Sequence[str], quoted: str) -> None:
    said = diagnose(("I1 x] completed step: 3, seconds: 0.2, loss: 6.2", *lines))
    assert said is not None
    assert said.kind == kind
    assert quoted in said.text
    assert said.lost_peer == (kind in {"dcn-timeout", "peer-lost"})


@pytest.mark.parametrize("lines", [("I1 x] completed step: 3, seconds: 1.0, loss: 6.2", "bye"), ()])
def test_lines_of_a_healthy_run_give_no_diagnosis(lines: Sequence[str]) -> None:
    assert diagnose(lines) is None


def test_own_exception_outranks_a_lost_peer() -> None:
    for order in ((HEARTBEAT, "KeyError: 'x'"), ("KeyError: 'x'", HEARTBEAT)):
        said = diagnose(order)
        assert said is not None
        assert said.kind == "exception"


def test_exception_about_a_peer_is_diagnosed_as_peer_lost() -> None:
    said = diagnose(("jaxlib._jax.XlaRuntimeError: DATA_LOSS: lost slice 1",))
    assert said is not None
    assert said.kind == "peer-lost"


def test_quota_error_is_not_diagnosed_as_out_of_memory() -> None:
    said = diagnose(("google.api_core.exceptions.TooManyRequests: RESOURCE_EXHAUSTED: Quota exceeded",))
    assert said is not None
    assert said.kind == "exception"


def test_every_kind_of_failure_has_a_rule() -> None:
    explained = {rule.pattern for group in groups() for rule in group}
    kinds = {one.kind for one in (*OWN, *ECHOES)} | {
        "config-error",
        "not-a-number",
        "exception",
        "data-empty",
        "data-ended",
    }
    assert {f"^{kind}$" for kind in kinds} <= explained
    assert {line[0] for line in LINES} == kinds


@pytest.mark.parametrize(("kind", "lines", "quoted"), LINES, ids=[f"{n} {line[0]}" for n, line in enumerate(LINES)])
def test_terminal_colours_do_not_hide_a_failure(kind: str, lines: Sequence[str], quoted: str) -> None:
    coloured = diagnose([f"\x1b[1m\x07{line[:3]}\x1b[31m{line[3:]}\x1b[0m" for line in lines])
    assert coloured == diagnose(lines)
    assert coloured is not None
    assert coloured.kind == kind
    assert quoted in coloured.text


def test_signature_is_the_same_for_the_same_failure_in_another_attempt() -> None:
    first = "E1121 11:57:01.123456     140 pyconfig.py:394] [process=3] Ran out at 0x7f3a after 12.5 s of task 17"
    again = "E1122 09:00:00.000001     988 pyconfig.py:394] [process=61] Ran out at 0x1b2c after 99.1 s of task 4"
    assert signature(first) == signature(again) == "Ran out at # after # s of task #"
    assert signature(first) != signature("KeyError: 'a'")


def test_long_line_is_cut_to_400_characters() -> None:
    said = diagnose((f"ValueError: {'x' * 2000}",))
    assert said is not None
    assert len(said.line) == len(said.text) == 400


@given(st.lists(st.text()))
def test_any_lines_give_a_cause_or_none(lines: list[str]) -> None:
    said = diagnose(lines)
    assert said is None or (said.kind and said.line)

"""The log line that explains why a process died."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.runs.causes import log_rules
from xsft.runs.failures import MAX_REASON, NO_ROWS, diagnose, reason, signature

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
IN_HUB = '  File "/x/site-packages/huggingface_hub/file_download.py", line 1970, in _raise_on_head_call_error'
RULER = f"{ABSL}{'=' * 80}"
CAUSE = "The above exception was the direct cause of the following exception:"
CONTEXT = "During handling of the above exception, another exception occurred:"
IGNORED = ("Exception ignored in atexit callback: <f>", "Traceback (most recent call last):", "  File")
RAISED = ("Traceback (most recent call last):", '  File "/deps/train.py", line 9, in <module>')
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
            "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error.",
            "Ran out of memory in memory space hbm. Used 38.75G of 31.25G hbm. Exceeded hbm capacity by 7.50G.",
        ),
        "Used 38.75G of 31.25G",
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
    ("chat-template", ("ValueError: System message found at index 1. System messages must be at index 0.",), "index 1"),
    ("data-columns", ("AssertionError: Dataset column names mismatch. Expected columns …",), "Expected columns"),
    ("data-unreadable", ("TimeoutError: Failed to load data after 30 retry attempts.",), "30 retry"),
    (
        "profiler-steps",
        ("ValueError: First profile step 5 cannot be greater than the last profile step 5.",),
        "First profile step",
    ),
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
    ("dcn-timeout", (f"{ABSL}Megascale detects a hang but cannot determine the root cause. Please",), "a hang"),
    (
        "peer-late",
        (HEARTBEAT, "absl::Status: DEADLINE_EXCEEDED", "RPC: /xla.coordination.CoordinationService/RegisterTask"),
        "Register",
    ),
    ("kernel-memory", ("ValueError: x: Ran out of memory in memory space vmem while allocating on stack",), "vmem"),
    ("disk-full", ("OSError: [Errno 28] No space left on device: '/tmp/x'",), "/tmp/x"),
    ("host-memory", ("jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 99 bytes.",), "99"),
    ("message-too-large", ("JaxRuntimeError: RESOURCE_EXHAUSTED: Received message larger than max (9 vs. 4)",), "9 vs"),
    (
        "checkpoint-damaged",
        ('ValueError: DATA_LOSS: Error opening "zarr" driver: Error decoding manifest: Length in header',),
        "manifest",
    ),
    (
        "hub-unreachable",
        (
            IN_HUB,
            "OSError: We couldn't connect to 'https://huggingface.co' to load",
        ),
        "connect",
    ),
    (
        "bucket-busy",
        ("ValueError: ABORTED: All 32 retry attempts failed: x [http_response_code='429']",),
        "All 32 retry",
    ),
    ("bucket-unreachable", ("ValueError: ABORTED: All 32 retry attempts failed: CURL error Could not",), "CURL"),
    ("image-platform", ("exec /usr/bin/bash: exec format error",), "bash"),
    (
        "login-refused",
        ("google.auth.exceptions.RefreshError: ('Failed to retrieve http://metadata.google.internal",),
        "metadata",
    ),
    ("bucket-missing", ("google.api_core.exceptions.NotFound: 404 The specified bucket does not exist.",), "404"),
    ("peer-lost", (HEARTBEAT,), "another task died"),
    (
        "peer-lost",
        ("jax.errors.JaxRuntimeError: UNAVAILABLE: Task 3 heartbeat timeout. This indicates that the remote task",),
        "Task 3",
    ),
    (
        "told-to-stop",
        ("I1120 07:48:25.599753      17 preemption_sync_manager.cc:169] Received preemption notice with death_time x",),
        "preemption notice",
    ),
]


@pytest.mark.parametrize(("kind", "lines", "quoted"), LINES, ids=[f"{n} {line[0]}" for n, line in enumerate(LINES)])
def test_diagnose_recognises_each_failure_by_its_line(kind: str, lines: Sequence[str], quoted: str) -> None:
    diagnosis = diagnose(("I1 x] completed step: 3, seconds: 0.2, loss: 6.2", *RAISED, *lines))
    assert diagnosis is not None
    assert diagnosis.kind == kind
    assert quoted in f"{diagnosis.text} {diagnosis.line}"
    assert diagnosis.lost_peer == (kind in {"dcn-timeout", "peer-late", "peer-lost"})


@pytest.mark.parametrize("lines", [("I1 x] completed step: 3, seconds: 1.0, loss: 6.2", "bye"), ()])
def test_lines_of_a_healthy_run_give_no_diagnosis(lines: Sequence[str]) -> None:
    assert diagnose(lines) is None


HUB_BUSY = "huggingface_hub.errors.HfHubHTTPError: 429 Too Many Requests for url: https://huggingface.co/x."
WENT_ON = "I1 x] completed step: 4, seconds: 0.2, loss: 6.1"
LEFT = "F1121 12:00:01.000000    17 client.h:80] Shutdown barrier has failed"


@pytest.mark.parametrize(
    ("lines", "kind", "earlier"),
    [
        pytest.param((*RAISED, "KeyError: 'x'", LEFT), "exception", False, id="own exception, then its peers"),
        pytest.param(
            ("ModuleNotFoundError: No module named 'x'", *RAISED, "KeyError: 'x'"), "exception", False, id="a"
        ),
        pytest.param((*RAISED, HUB_BUSY, WENT_ON, *RAISED, "KeyError: 'x'"), "exception", False, id="survived, died"),
        pytest.param((*RAISED, HUB_BUSY, WENT_ON), "hub-busy", True, id="survived, no exception"),
        pytest.param((*RAISED, HUB_BUSY, "", CAUSE, "", *RAISED, "OSError: no"), "hub-busy", False, id="direct cause"),
        pytest.param((*RAISED, HUB_BUSY, "", CONTEXT, "", *RAISED, "OSError: no"), "exception", False, id="handled"),
        pytest.param(("Exception in thread T:", *RAISED, HUB_BUSY, *RAISED, "KeyError: 1"), "exception", False, id="t"),
        pytest.param(("Exception in thread T:", *RAISED, HUB_BUSY), "hub-busy", False, id="a thread's alone"),
        pytest.param(("    frame()", HUB_BUSY), "hub-busy", False, id="the traceback's head is cut off"),
        pytest.param((HUB_BUSY, "up", "F1 x] bye"), "hub-busy", True, id="printed, not raised"),
        pytest.param((*RAISED, HUB_BUSY, "", "XPK End: now", "EXIT_CODE=1"), "hub-busy", False, id="xpk's lines"),
        pytest.param(("bash: line 1: gcsfuse: command not found", "up"), "command-missing", True, id="not the last"),
        pytest.param((*RAISED, "KeyError: 1", *IGNORED, HUB_BUSY), "exception", False, id="ignored at exit"),
        pytest.param((*IGNORED, HUB_BUSY), "hub-busy", True, id="only ignored at exit"),
    ],
)
def test_the_end_of_the_log_is_judged(lines: Sequence[str], kind: str | None, earlier: bool) -> None:
    diagnosis = diagnose(("up", *lines))
    assert (diagnosis.kind if diagnosis else None, diagnosis.earlier if diagnosis else False) == (kind, earlier)
    assert reason(("up", *lines)) == (None if diagnosis is None or earlier else diagnosis.text)


def test_an_unknown_key_is_reported_without_the_900_known_keys() -> None:
    text = ", ".join(f"'key_{n}'" for n in range(900))
    assert reason((f"{ABSL}MAXTEXT CONFIG ERROR: 'stepz' not in {text}.", RULER)) == (
        "MaxText does not know the key 'stepz'"
    )


def test_a_pydantic_message_is_joined_from_its_lines() -> None:
    lines = (
        f"{ABSL}MAXTEXT CONFIG ERROR: 1 validation error for MaxTextConfig",
        "steps",
        "  Input should be a valid integer [type=int_parsing, input_value='abc', input_type=str]",
        "    For further information visit https://errors.pydantic.dev/2.14/v/int_parsing",
        RULER,
        "Traceback (most recent call last):",
    )
    assert reason(lines) == (
        "MaxText refused its configuration: 1 validation error for MaxTextConfig steps "
        "Input should be a valid integer [type=int_parsing, input_value='abc', input_type=str]"
    )


def test_a_long_reason_is_cut() -> None:
    reason_text = reason(("ValueError: " + "x" * 10_000,))
    assert reason_text is not None
    assert (len(reason_text), reason_text[-1]) == (MAX_REASON, "…")


def test_every_rule_of_a_log_has_a_line() -> None:
    assert {rule.id for rule in log_rules()} == {line[0] for line in LINES}
    assert NO_ROWS in {rule.text for rule in log_rules()}


@pytest.mark.parametrize(("kind", "lines", "quoted"), LINES, ids=[f"{n} {line[0]}" for n, line in enumerate(LINES)])
def test_terminal_colours_do_not_hide_a_failure(kind: str, lines: Sequence[str], quoted: str) -> None:
    coloured = diagnose([f"\x1b[1m\x07{line[:3]}\x1b[31m{line[3:]}\x1b[0m" for line in lines])
    assert coloured == diagnose(lines)
    assert coloured is not None
    assert coloured.kind == kind
    assert quoted in f"{coloured.text} {coloured.line}"


def test_signature_is_the_same_for_the_same_failure_in_another_attempt() -> None:
    first = "E1121 11:57:01.123456     140 pyconfig.py:394] [process=3] Ran out at 0x7f3a after 12.5 s of task 17"
    again = "E1122 09:00:00.000001     988 pyconfig.py:394] [process=61] Ran out at 0x1b2c after 99.1 s of task 4"
    assert signature(first) == signature(again) == "Ran out at # after # s of task #"
    assert signature(first) != signature("KeyError: 'a'")


def test_long_line_is_cut_to_400_characters() -> None:
    diagnosis = diagnose((f"ValueError: {'x' * 2000}",))
    assert diagnosis is not None
    assert (len(diagnosis.line), len(diagnosis.text)) == (400, 600)


@given(st.lists(st.text()))
def test_any_lines_give_a_cause_or_none(lines: list[str]) -> None:
    diagnosis = diagnose(lines)
    assert diagnosis is None or (diagnosis.kind and diagnosis.line)

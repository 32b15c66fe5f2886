"""Classify the failure of a process by its last lines: one kind, with its line. Pure.

The kinds are explained by xsft/states/rules.toml: each has a rule there, and a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from xsft.states.evidence import Diagnosis
from xsft.trainers.explain import EMPTY, exception, no_rows, reason
from xsft.trainers.lines import ConfigError, DataEnded, TrainingAborted, trainer_event
from xsft.trainers.plain import plain_line

MAX_LINE = 400
"""Maximum characters of a quoted line."""


class Pattern(Struct, frozen=True, kw_only=True):
    kind: str
    pattern: re.Pattern[str]
    source: str
    """Name and version of the software that prints it."""
    lost_peer: bool = False
    """As `Diagnosis.lost_peer`."""


def diagnose(lines: Sequence[str]) -> Diagnosis | None:
    """Return the likeliest cause in these lines; None if they show no failure.

    An error that MaxText names comes first, then known messages, then the exception that ended Python. A lost peer
    comes last, because a process that fails by itself also reports lost peers. Colours are ignored.
    """
    bare = tuple(plain_line(line) for line in lines)
    return next(_find_failures(bare), None)


def signature(line: str) -> str:
    """Return the line without its prefix, numbers, addresses and quoted names: equal for the same failure of two
    attempts."""
    bare = _PREFIX.sub("", line)
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "#", bare, flags=re.IGNORECASE).strip()[:160]


def _find_failures(lines: Sequence[str]) -> Iterator[Diagnosis]:
    for kind, line in _events(lines, {ConfigError: "config-error", TrainingAborted: "not-a-number"}):
        yield _diagnosis(kind, line, text=reason(lines) or line)
    yield from _matches(lines, OWN)
    if empty := no_rows(lines):
        yield _diagnosis("data-empty", empty, text=EMPTY)
    raised = exception(lines)
    echo = raised is not None and any(one.pattern.search(raised) for one in ECHOES)
    if raised and not echo:
        yield _diagnosis("exception", raised)
    for kind, line in _events(lines, {DataEnded: "data-ended"}):
        yield _diagnosis(kind, line)
    yield from _matches(lines, ECHOES)


def _events(lines: Sequence[str], kinds: dict[type, str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        event = trainer_event(line)
        if type(event) in kinds:
            yield kinds[type(event)], line


def _matches(lines: Sequence[str], patterns: Sequence[Pattern]) -> Iterator[Diagnosis]:
    """Yield the matches by pattern, then by line: the table's order is the order of likelihood."""
    for one in patterns:
        for line in lines:
            if one.pattern.search(line):
                yield _diagnosis(one.kind, line, lost_peer=one.lost_peer)


def _diagnosis(kind: str, line: str, *, text: str = "", lost_peer: bool = False) -> Diagnosis:
    """Return the diagnosis. `text`: if empty, the line without its prefix."""
    return Diagnosis(
        kind=kind,
        line=_cut_line(line),
        text=text or _cut_line(_PREFIX.sub("", line).strip()),
        signature=signature(line),
        lost_peer=lost_peer,
    )


def _cut_line(text: str) -> str:
    return text if len(text) <= MAX_LINE else text[: MAX_LINE - 1] + "…"


_PREFIX = re.compile(
    r"^(?:[IWEF]\d{4} [\d:.]+\s+\d+ [\w./-]+:\d+\] |(?:INFO|WARNING|ERROR|CRITICAL):\w+:)"
    r"(?:\[process=\d+\](?:\[[^\]]*\])? )?"
)
"""Prefix of log lines of absl and of logging."""


def _pattern(kind: str, pattern: str, source: str, *, lost_peer: bool = False) -> Pattern:
    return Pattern(kind=kind, pattern=re.compile(pattern), source=source, lost_peer=lost_peer)


OWN: tuple[Pattern, ...] = (
    _pattern(
        "hbm",
        r"Ran out of memory in memory space hbm|RESOURCE_EXHAUSTED(?!.*(?:quota|Quota|rate limit|larger than max))",
        "XLA, libtpu",
    ),
    _pattern("checkpoint-missing", r"No valid Orbax checkpoint found", "maxtext@0.2.5 utils/model_creation_utils.py"),
    _pattern("checkpoint-scan-layers", r"Configuration mismatch: Your run specifies scan_layers", "maxtext@0.2.5"),
    _pattern("checkpoint-ocdbt", r"OCDBT not supported for Pathways", "pathwaysutils"),
    _pattern("checkpoint-shape", r"Cannot align axis \d+ .*not divisible by ckpt_dim", "maxtext@0.2.5"),
    _pattern("chat-template", r"Unable to apply chat template", "maxtext@0.2.5 input_pipeline"),
    _pattern("data-columns", r"Dataset column names mismatch", "maxtext@0.2.5 input_pipeline/data_processing_utils.py"),
    _pattern("data-unreadable", r"Failed to load data after \d+ retry attempts", "maxtext@0.2.5 input_pipeline"),
    _pattern("profiler-steps", r"First profile step", "maxtext@0.2.5 common/profiler.py"),
    _pattern(
        "hub-denied",
        r"GatedRepoError|Cannot access gated repo|Access to (?:model|dataset) .* is restricted|Invalid user token"
        r"|(?:401|403) Client Error.*huggingface",
        "huggingface_hub",
    ),
    _pattern("hub-not-found", r"RepositoryNotFoundError|404 Client Error.*huggingface", "huggingface_hub"),
    _pattern(
        "hub-busy",
        r"(?:429 Client|50\d Server) Error.*huggingface|huggingface\.co.*(?:[Rr]ead timed out|Max retries)",
        "huggingface_hub",
    ),
    _pattern(
        "bucket-denied",
        r"does not have storage\.\S+ access|403 .*storage\.googleapis\.com|PERMISSION_DENIED.*(?:gs://|storage)",
        "google-cloud-storage, TensorStore",
    ),
    _pattern(
        "tpu-init",
        r"Unable to initialize backend 'tpu'|TPU initialization failed|Failed to get global TPU topology"
        r"|The TPU is already in use by process",
        "JAX, libtpu",
    ),
    _pattern("module-missing", r"ModuleNotFoundError: |^\S*python\S*: No module named ", "Python"),
    _pattern("command-missing", r"^(?:/bin/)?(?:ba)?sh: .*(?:command not found|No such file or directory)", "bash"),
)
"""Patterns of a process's own failure."""

ECHOES: tuple[Pattern, ...] = (
    _pattern(
        "dcn-timeout",
        r"[Mm]ega[Ss]cale.*(?:DEADLINE_EXCEEDED|[Tt]imed? ?out|unhealthy)|[Ss]lice [Hh]ealth|DCN.*(?:[Tt]imed? ?out)",
        "libtpu",
        lost_peer=True,
    ),
    _pattern(
        "peer-lost",
        r"heartbeat timeout|JAX distributed service detected fatal errors|Barrier timed out|CoordinationServiceError"
        r"|coordination service.*(?:error|UNAVAILABLE|[Ss]hut)|Connection reset by peer|Socket closed|DATA_LOSS"
        r"|UNAVAILABLE: |(?:DEADLINE_EXCEEDED|ABORTED|CANCELLED): ",
        "JAX's coordination service, gRPC",
        lost_peer=True,
    ),
    _pattern(
        "told-to-stop",
        r"Received preemption notice|SIGTERM received|Saving checkpoint at step \d+ due to preemption",
        "JAX, Orbax",
    ),
)
"""Patterns of a process when another one failed, or when it was terminated."""

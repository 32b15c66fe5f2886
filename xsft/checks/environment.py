"""Check environment variables, XLA flags and the size of the command: each reaches its process and has an effect.
Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from typing import Literal

from msgspec import Struct

from xsft.base.problems import Problem, error, note, warning
from xsft.catalog.data import catalog_text
from xsft.catalog.releases import DEFAULT
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import is_on
from xsft.launcher.cpujob import command
from xsft.launcher.encoding import RESTARTS, encode_env_value, env_name_problem
from xsft.spec.base import Keys
from xsft.spec.modes import mode_reserving, mode_rules
from xsft.spec.resolve import Run
from xsft.trainer.trainer import trainer_of

INJECTED = re.compile(
    r"MEGASCALE_(COORDINATOR_ADDRESS|NUM_SLICES|SLICE_ID|PORT)|TPU_WORKER_.*|JOB_COMPLETION_INDEX"
    r"|TPU_(ACCELERATOR_TYPE|TOPOLOGY.*|SKIP_MDS_QUERY|CHIPS_PER_HOST_BOUNDS|HOST_BOUNDS)"
)
"""Variables that GKE's TPU webhook and Kubernetes' Job controller put into the containers of a slice. Other MEGASCALE_
and TPU_ names are settings of the user."""

JAX_PROCESSES = re.compile(
    r"JAX_(COORDINATOR_ADDRESS|LOCAL_DEVICE_IDS)|CLOUD_TPU_TASK_ID"
    r"|TPU_(PROCESS_(ADDRESSES|BOUNDS|PORT)|CHIPS_PER_PROCESS_BOUNDS|VISIBLE_(CHIPS|DEVICES))"
)
"""Variables that go before what JAX and libtpu find on GKE. source: jax@0.11.0 _src/distributed.py; of libtpu's:
github.com/huggingface/transformers/issues/28204, "Expected 4 worker addresses, got 1"."""


class EnvHabit(Struct, frozen=True, kw_only=True):
    """A variable that has another effect in a pod than on the machines where it is usually set."""

    id: Literal["env-offline", "env-proxy", "env-replaces-image", "env-credentials", "env-hub", "env-jax", "env-path"]
    names: str
    """Regular expression of the whole name."""
    switch: bool = False
    """Whether it acts only if it is on."""
    values: str = ".*"
    """Regular expression of the values with which it acts."""
    message: str
    fix: str


OFFLINE = EnvHabit(
    id="env-offline",
    names="(HF_HUB|HF_DATASETS|TRANSFORMERS)_OFFLINE",
    switch=True,
    message="the pods start with an empty cache, so tokenizer and data would not be found.",
    fix="Remove it, or name a tokenizer and data that are in the image or on gs://.",
)
PROXY = EnvHabit(
    id="env-proxy",
    names="(?i)(all|http|https|grpc)_proxy",
    message="gRPC also uses this proxy between the hosts, and to Pathways; the connections may hang.",
    fix="Remove it, or exclude these addresses by no_proxy.",
)
"""source: jax@0.11.0 _src/distributed.py [State.initialize], which warns of every such variable."""
HABITS = (
    EnvHabit(
        id="env-replaces-image",
        names="PATH|PYTHONHOME",
        message="it replaces the image's own value; Kubernetes and xpk append nothing.",
        fix="Remove it, or repeat the image's value in it.",
    ),
    EnvHabit(
        id="env-credentials",
        names="GOOGLE_APPLICATION_CREDENTIALS",
        message="the pods have only the files of the image, and without this file nothing on gs:// can be read.",
        fix="Remove it: the pods have the rights of their node pool or ServiceAccount.",
    ),
    EnvHabit(
        id="env-jax",
        names="JAX_(DISABLE_(JIT|MOST_OPTIMIZATIONS)|ENABLE_X64)",
        switch=True,
        message="it is for debugging: it disables compilation or optimisation, or computes with 64 bits.",
        fix="Remove it.",
    ),
    EnvHabit(
        id="env-jax",
        names="JAX_PLATFORM_NAME",
        values="cpu|gpu|cuda",
        message="JAX would not compute on the TPUs.",
        fix="Remove it.",
    ),
    EnvHabit(
        id="env-jax",
        names="XLA_PYTHON_CLIENT_(MEM_FRACTION|PREALLOCATE|ALLOCATOR)",
        message="JAX reads it for GPUs; on TPUs it has no effect.",
        fix="Remove it.",
    ),
    EnvHabit(
        id="env-hub",
        names="HF_HUB_ENABLE_HF_TRANSFER",
        switch=True,
        message="huggingface_hub before 1.0 stops at a download if hf_transfer is missing; later ones ignore it.",
        fix="Remove it; HF_XET_HIGH_PERFORMANCE=1 is its successor.",
    ),
    EnvHabit(
        id="env-path",
        names="(HF_(HOME|HUB_CACHE|DATASETS_CACHE|ASSETS_CACHE)|TRANSFORMERS_CACHE|TMPDIR|XDG_CACHE_HOME)",
        values="(gs|https?)://.*",
        message="it must name a folder of the pod: the library would create a local one called gs:.",
        fix="Remove it, or name a folder such as /tmp/cache.",
    ),
)

HUB_TOKENS = frozenset({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})

LIBTPU_FLAG = re.compile(r"--?((?:no)?(?:xla|megascale)_[a-z0-9_]+)")
AMOUNT = re.compile(r"--?[a-z0-9_]+_(kib|mib|bytes|ms)")
"""Name of a flag that takes a whole number."""
WHOLE = re.compile(r"-?[0-9]+")
SWITCH = ("true", "false")
XLA_FLAG = re.compile(r"--[A-Za-z0-9_]+=[^\s'\"]+")

MAX_ENV_BYTES = 131_000
"""Maximum bytes of one NAME=value: Linux takes 131,072 bytes per string (MAX_ARG_STRLEN); with more the container does
not start."""

MAX_MANIFEST_BYTES = 1_000_000
"""Maximum bytes of an object: etcd refuses objects above 1.5 MiB; measured on a real API server: 1.2 MB passes, 1.7 MB
does not."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check names, values and flags for a cluster. Only there a shell starts the trainer, and bash drops some names."""
    del keys, facts
    yield from _check_env_values(run)
    if not run.spec.on_cluster:
        if run.spec.xla_flags:
            message = "These flags are for the TPU compiler; they are omitted on this machine."
            yield note("xla-flags-ignored", "xla_flags", message)
        return
    yield from _check_env_names(run)
    yield from _check_habits(run)
    yield from _check_libtpu_flags(run)
    yield from _check_flag_names(run)
    yield from _check_flag_values(run)
    yield from _check_xla_flags(run)
    yield from _check_manifest_size(run)


def _check_env_names(run: Run) -> Iterator[Problem]:
    reserved = mode_rules(run.mode.value).reserved_env
    named = [(name, f"env.{name}") for name in run.spec.env]
    named += [(name, f"secrets.env.{name}") for name in run.spec.secrets.env]
    for name, where in named:
        if (why := env_name_problem(name)) is not None:
            yield error("env-name", where, f"{why}.", "Choose another name.", kind="unrenderable")
        elif name in reserved:
            message = f"{name} is set by {run.mode.value} mode; Kubernetes refuses it twice."
            yield error("env-reserved", where, message, "Remove it; `xsft plan` shows its value.")
        elif where.startswith("secrets.") and (why := _why_no_secret(run, name)) is not None:
            yield error("env-reserved", where, why, "Remove it.")
        elif name == "HF_TOKEN_PATH" and run.spec.secrets.hf_token:
            message = "HF_TOKEN_PATH is set by secrets.hf_token, to the mounted file."
            yield error("env-reserved", where, message, "Remove it.")
        elif name == RESTARTS:
            message = f"{name} is reserved by xsft: the number of JobSet restarts, for the shuffle seed."
            yield error("env-reserved", where, message, "Choose another name.")
        elif INJECTED.fullmatch(name):
            message = (
                f"{name} is set in the pods by GKE or Kubernetes; with another value the hosts cannot "
                "connect to each other."
            )
            yield error("env-reserved", where, message, "Remove it.")
        elif JAX_PROCESSES.fullmatch(name) and not run.mode.single_controller:
            message = f"{name} is the same on all hosts; JAX on GKE finds hosts, chips and coordinator itself."
            yield error("env-reserved", where, message, "Remove it.")
        elif other := mode_reserving(name):
            message = f"{name} is for {other} mode; in {run.mode.value} mode it prevents JAX from using the TPU."
            yield error("env-other-mode", where, message, f"Remove it, or set mode: {other}, which sets it.")


def _why_no_secret(run: Run, name: str) -> str | None:
    """Return why this variable cannot come from a Secret; None if it can. source: maxtext@0.2.5 configs/pyconfig.py,
    which reads its keys from variables, and writes its configuration, `HF_TOKEN` included, beside the metrics."""
    if name in trainer_of(run).container_env(run):
        return f"{name} is set twice: xsft or env sets it, too."
    if name.startswith("M_"):
        return f"MaxText reads {name} into its configuration, which it writes to the output."
    if name in HUB_TOKENS:
        return f"MaxText writes {name} to the output with its configuration; secrets.hf_token is read from a file."
    return None


def _check_habits(run: Run) -> Iterator[Problem]:
    names = {name.lower() for name in run.spec.env}
    habits = (*HABITS, *((OFFLINE,) if _reads_hub(run) else ()), *(() if "no_proxy" in names else (PROXY,)))
    for name, value in run.spec.env.items():
        for habit in habits:
            acts = re.fullmatch(habit.values, value, re.DOTALL) and (is_on(value) or not habit.switch)
            if acts and re.fullmatch(habit.names, name):
                yield warning(habit.id, f"env.{name}", f"{name} is set: {habit.message}", habit.fix)


def _reads_hub(run: Run) -> bool:
    """Return whether the pods load the tokenizer or the data by its name on the hub."""
    tokenizer = run.spec.model.tokenizer or ""
    return not tokenizer.startswith(("/", "gs://")) or not run.spec.data.hf_train_files


def _check_env_values(run: Run) -> Iterator[Problem]:
    for name, value in trainer_of(run).container_env(run).items():
        where = f"env.{name}"
        try:
            size = len(name) + 1 + len(encode_env_value(value).encode())
        except ValueError as unfit:
            yield error("env-value", where, f"{unfit}.", "Remove that character.", kind="unrenderable")
            continue
        if size > MAX_ENV_BYTES:
            message = f"{name} has {size:,} bytes; the limit of Linux for one variable is {MAX_ENV_BYTES:,}."
            yield error(
                "env-value",
                where,
                message,
                "Put it into a file on gs://, and pass the file's path.",
                kind="unrenderable",
            )


def _check_libtpu_flags(run: Run) -> Iterator[Problem]:
    if "XLA_FLAGS" in run.spec.env and run.mode.single_controller and run.spec.on_cluster:
        message = (
            "XLA_FLAGS affects only the head, which has no TPU; under Pathways programs are compiled in the proxy."
        )
        yield warning("xla-flags-head", "env.XLA_FLAGS", message, "Write TPU flags under xla_flags.")
    if tpu_flags := [word for word in run.spec.env.get("XLA_FLAGS", "").split() if word.startswith("--xla_tpu_")]:
        message = f"XLA_FLAGS has {tpu_flags[0]}: jaxlib stops the process with `Unknown flag in XLA_FLAGS`."
        yield error("xla-flags-tpu", "env.XLA_FLAGS", message, "Write flags of the TPU compiler under xla_flags.")
    if "LIBTPU_INIT_ARGS" not in run.spec.env:
        return
    where = "env.LIBTPU_INIT_ARGS"
    if loose := [word for word in run.spec.env["LIBTPU_INIT_ARGS"].split() if not word.startswith("-")]:
        message = f"libtpu ignores {loose[0]!r} in LIBTPU_INIT_ARGS: a flag begins with --."
        yield warning("libtpu-flag-ignored", where, message, "Write --xla_…=value, each flag once, under xla_flags.")
    if run.mode.single_controller:
        message = "LIBTPU_INIT_ARGS has no effect under Pathways: the trainer runs on the head, which has no TPU."
        yield error("libtpu-pathways", where, message, "Write the flags under xla_flags: they go to the proxy.")
    elif run.spec.xla_flags:
        message = "LIBTPU_INIT_ARGS and xla_flags are both given, and xla_flags becomes LIBTPU_INIT_ARGS."
        yield error("libtpu-twice", where, message, "Move its flags to xla_flags.")


def _check_xla_flags(run: Run) -> Iterator[Problem]:
    """Check the XLA flags; under Pathways each is also an argument of the proxy: checks.pathways."""
    names = [flag.partition("=")[0] for flag in run.spec.xla_flags]
    for index, flag in enumerate(run.spec.xla_flags):
        where = f"xla_flags.{index}"
        if not XLA_FLAG.fullmatch(flag):
            message = f"{flag!r} is not of the form --xla_…=value, without spaces or quotes."
            yield error("xla-flag", where, message, "Write one flag per list item.")
        elif names[index] in names[:index]:
            yield warning("xla-flag-twice", where, f"{names[index]} is given twice; the last one wins.", "Remove one.")


def _check_flag_names(run: Run) -> Iterator[Problem]:
    """Check the flags against the libtpu that the release pins; Pathways' proxy has others. An unknown one ends libtpu
    with `Unknown command line flag` (run with libtpu 0.0.44).
    """
    if run.release.version != DEFAULT or run.mode.single_controller:
        return
    for where, flag in _given_flags(run):
        match = LIBTPU_FLAG.match(flag)
        if match and not {match[1], match[1].removeprefix("no")} & libtpu_flags():
            similar = next(iter(get_close_matches(match[1], libtpu_flags(), n=1, cutoff=0.85)), "")
            message = f"libtpu 0.0.44, which MaxText {DEFAULT} pins, has no flag --{match[1]}, and would stop."
            fix = (
                f"Did you mean --{similar}?"
                if similar
                else "Remove it, or accept this if the image has another libtpu."
            )
            yield error("xla-flag-unknown", where, message, fix, kind="disputable")


def _given_flags(run: Run) -> Iterator[tuple[str, str]]:
    yield from ((f"xla_flags.{index}", flag) for index, flag in enumerate(run.spec.xla_flags))
    yield from (("env.LIBTPU_INIT_ARGS", flag) for flag in run.spec.env.get("LIBTPU_INIT_ARGS", "").split())


def _check_flag_values(run: Run) -> Iterator[Problem]:
    """Check values whose type follows from the flag's name, and misspelt true and false. libtpu ends with `Illegal
    value '96M' specified for flag` (run with libtpu 0.0.44, also for `treu` and `true,`).
    """
    for where, flag in _given_flags(run):
        name, _, value = flag.partition("=")
        amount = AMOUNT.fullmatch(name)
        if value and (not WHOLE.fullmatch(value) if amount else _is_misspelt_switch(value)):
            allowed = f"a whole number of {amount[1]}" if amount else "true or false"
            message = f"{flag} has an invalid value: libtpu would stop. The flag takes {allowed}."
            yield error("xla-flag-value", where, message, "Write it without unit, quotes or comma.", kind="disputable")


def _is_misspelt_switch(value: str) -> bool:
    word = value.strip("\"',;").lower()
    return value.lower() not in SWITCH and bool(get_close_matches(word, SWITCH, n=1, cutoff=0.75))


@cache
def libtpu_flags() -> frozenset[str]:
    """Return the names that libtpu's flags can have."""
    lines = catalog_text("libtpu_flags.txt").splitlines()
    return frozenset(" ".join(line for line in lines if not line.startswith("#")).split())


def _check_manifest_size(run: Run) -> Iterator[Problem]:
    """Check the size of the command; one that cannot be encoded is the planner's `command-encoding`."""
    try:
        line = command(run)
    except ValueError:
        return
    environment = trainer_of(run).container_env(run)
    size = len(line.encode()) + sum(len(n) + len(v.encode(errors="replace")) for n, v in environment.items())
    if size > MAX_MANIFEST_BYTES:
        message = f"Command and environment take {size:,} bytes; a cluster stores objects of up to 1.5 MB."
        yield error("manifest-size", "env", message, "Put long values into files on gs://.")

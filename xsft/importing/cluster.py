"""Parse the flags of a pasted xpk line as xpk does, and turn them into place, slices, image and other cluster fields.
Pure.

source: xpk@1.16.0 parser/workload.py, parser/common.py: abbreviations, `=` or a space, the last one wins.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, NoReturn

from pydantic import TypeAdapter, ValidationError

from xsft.base.errors import SpecError
from xsft.base.names import ModeName
from xsft.base.problems import Problem, error, warning
from xsft.base.secrets import redact
from xsft.importing.notes import Notes
from xsft.launcher.xpk import DRY_RUN_ZONE, STAND_IN_CLUSTER
from xsft.spec.keypath import printable, shown_text
from xsft.spec.model import RunName
from xsft.spec.refused import REFUSALS

Tree = dict[str, Any]
"""A workload: its sections are mappings."""
Flags = Mapping[str, Any]
"""Flags of the line, by full name without dashes: `num-slices` -> "2"; True for a switch, a list for --env."""

_SHARED = """
    cluster project project-number zone namespace workload tpu-type num-slices priority max-restarts
    ttl-seconds-after-finished termination-grace-period-seconds docker-name docker-image docker-image-pull-secret
    base-docker-image script-dir output-manifest-file colocated-python-sidecar-image reservation experiment-name
    env-file command
""".split()  # noqa: SIM905 (otherwise one line per name)
_SWITCHES = ("enable-debug-logs", "on-demand", "spot", "flex", "use-vertex-tensorboard")
_BOTH_WAYS = (
    "use-parallel-containers",
    "dry-run",
    "skip-validation",
    "quiet",
    "sandbox-kubeconfig",
    "dependency-auto-download",
)
_REPEATED = ("env", "storage")
_OWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "create": (
            *("device-type", "num-nodes", "scheduler", "ramdisk-directory", "debug-dump-gcs", "restart-on-exit-codes"),
        ),
        "create-pathways": (
            *("proxy-server-image", "server-image", "pathways-gcs-location", "elastic-slices", "max-slice-restarts"),
            *(f"custom-pathways-{server}-args" for server in ("server", "proxy-server", "worker")),
        ),
    }
)
_OWN_SWITCHES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"create": ("mtc-enabled", "deploy-stacktrace-sidecar", "use-pathways"), "create-pathways": ("headless",)}
)

FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "namespace": "namespace",
        "docker-image": "image.ref",
        "docker-image-pull-secret": "image.pull_secret",
        "tpu-type": "tpu.type",
        "device-type": "tpu.type",
        "num-slices": "tpu.num_slices",
        "priority": "priority",
        "max-restarts": "restarts.max",
        "restart-on-exit-codes": "restarts.on_exit_codes",
        "termination-grace-period-seconds": "restarts.grace_period_s",
        "ttl-seconds-after-finished": "ttl_seconds_after_finished",
        "proxy-server-image": "pathways.proxy_image",
        "server-image": "pathways.server_image",
        "pathways-gcs-location": "pathways.scratch",
    }
)
"""Flag -> workload field."""

NUMBERS = frozenset({"num-slices", "max-restarts", "termination-grace-period-seconds", "ttl-seconds-after-finished"})

DROPPED: Mapping[str, str] = MappingProxyType(
    {
        "project-number": "it only saves xpk a lookup, which xsft does not need",
        "num-nodes": "it is for GPUs; the slices of a TPU type have a fixed number of hosts",
        "scheduler": "the cluster's default scheduler and Kueue queue are used",
        "docker-name": "the container's name is jax-tpu, which status and logs look for",
        "use-parallel-containers": "it is for tpu7 and tpu7x, whose containers xsft does not split",
        "output-manifest-file": "`xsft plan --manifest` prints the manifest",
        "dry-run": "`xsft plan` is the dry run",
        "skip-validation": "xpk's checks of this machine are not needed to submit",
        "quiet": "it makes xpk delete a running workload of the same name; xsft neither deletes nor prompts",
        "sandbox-kubeconfig": "xsft never changes your kubeconfig",
        "dependency-auto-download": "xsft downloads nothing while it submits",
        "use-pathways": "xpk rejects it; use mode: pathways",
    }
)
"""Flag -> why the workload does not have it."""

PATHWAYS_LOST = MappingProxyType(
    {
        "max-restarts": "xpk ignores it under Pathways, so that run never restarted; xsft sets it in the JobSet",
        "ttl-seconds-after-finished": "xpk ignores it under Pathways; xsft sets it in the JobSet",
        "docker-image-pull-secret": "xpk ignores it under Pathways; xsft sets it in the JobSet",
    }
)


def read_flags(verb: str, arguments: Sequence[str]) -> Flags:
    """Parse the flags. Raises SpecError with every flag that xpk would refuse."""
    parser = FlagParser(prog="xpk", add_help=False, argument_default=argparse.SUPPRESS)
    for name in (*_SHARED, *_OWN[verb]):
        short = ("-tgps",) if name == "termination-grace-period-seconds" else ()
        parser.add_argument(*short, f"--{name}", dest=name.replace("-", "_"))
    for name in _REPEATED:
        parser.add_argument(f"--{name}", action="append")
    for name in (*_SWITCHES, *_OWN_SWITCHES[verb]):
        parser.add_argument(f"--{name}", action="store_true")
    for name in _BOTH_WAYS:
        parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction)
    namespace, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        raise SpecError(tuple(_flag_unknown(verb, word) for word in unknown[:10]))
    return {name.replace("_", "-"): value for name, value in vars(namespace).items()}


class FlagParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        # argparse quotes all of an ambiguous `--fl=value`, and a value may be a secret
        text = printable(redact(re.sub(r"=\S*", "", message)))
        message = f"{self.prog} would refuse this line: {text}."
        raise SpecError((error("import-flag", "", message, "Correct it, then import again."),))


def _flag_unknown(verb: str, word: str) -> Problem:
    name = word.partition("=")[0]
    if name in _flag_names("create" if verb == "create-pathways" else "create-pathways"):
        message = f"{name} is not a flag of `xpk workload {verb}`; xpk would refuse this line."
        return error("import-flag", "", message, "Remove it.")
    return unknown_flag(f"xpk workload {verb}", _flag_names(verb), word)


def unknown_flag(command: str, names: Sequence[str], word: str) -> Problem:
    """Return the problem of a word that is none of the command's flags."""
    name = word.partition("=")[0]
    if not name.startswith("-"):
        message = f"{command} would refuse this line: an argument belongs to no flag (not shown: it may be a secret)."
        fix = "Quote values that contain spaces; check the backslashes at line ends."
        return error("import-flag", "", message, fix)
    similar = get_close_matches(name, names, n=1)
    hint = f"Did you mean {similar[0]}?" if similar else f"Its flags: {', '.join(sorted(names))}."
    message = f"`{command}` has no flag {shown_text(redact(name))}. {hint}"
    return error("import-flag", "", message, "Correct or remove it.")


def _flag_names(verb: str) -> tuple[str, ...]:
    plain = (*_SHARED, *_OWN[verb], *_REPEATED, *_SWITCHES, *_OWN_SWITCHES[verb], *_BOTH_WAYS)
    return tuple(f"--{name}" for name in plain)


def mode_of(verb: str, flags: Flags) -> ModeName:
    """Return the mode of an xpk line, which its verb or an older flag names in xpk's words."""
    return "pathways" if verb == "create-pathways" or flags.get("use-pathways") else "mcjax"


def lost_flags(mode: ModeName) -> Mapping[str, str]:
    """Return the flags that xpk accepts and ignores in this mode, each with the effect of that."""
    match mode:
        case "mcjax":
            return {}
        case "pathways":
            return PATHWAYS_LOST


def cluster_fields(flags: Flags, mode: ModeName, notes: Notes, *, ignored: Mapping[str, str]) -> Tree:
    """Return the fields from cluster flags, without name, environment and trainer.

    `ignored`: flags without effect, with the reason.
    """
    _say_dropped(flags, notes, ignored)
    tree: Tree = {"place": _read_place(flags, notes)}
    for flag, field in FIELDS.items():
        text = flags.get(flag)
        if not text or _is_empty(flag, text):
            continue
        if flag in NUMBERS and re.fullmatch(r"-?[0-9]{1,12}", text):
            put_field(tree, field, int(text))
        else:  # of a number that is none, validation of the workload reports the text
            put_field(tree, field, _parse_exit_codes(text) if flag == "restart-on-exit-codes" else text)
    for flag in ("on-demand", "spot", "reservation"):
        if flags.get(flag):
            put_field(tree, "tpu.capacity", flag)
    if flags.get("reservation"):
        put_field(tree, "tpu.reservation", flags["reservation"])
    match mode:
        case "mcjax":
            pass
        case "pathways":
            _server_arguments(tree, flags)
    return tree


def put_field(tree: Tree, path: str, value: object) -> None:
    section, _, key = path.rpartition(".")
    inside = tree.setdefault(section, {}) if section else tree
    inside[key] = value


def _is_empty(flag: str, text: str) -> bool:
    """Return whether xpk treats the value as not given."""
    return text == "" or (flag == "max-restarts" and text == "0")


def _parse_exit_codes(text: str) -> object:
    """Parse `1,3-5` into [1, 3, 4, 5]; other text is returned unchanged, and validation of the workload rejects it."""
    codes: list[int] = []
    for part in text.split(","):
        numbers = re.fullmatch(r"\s*([0-9]{1,3})(?:-([0-9]{1,3}))?\s*", part)
        if not numbers:
            return text
        codes.extend(range(int(numbers[1]), int(numbers[2] or numbers[1]) + 1))
    return codes


def _read_place(flags: Flags, notes: Notes) -> Tree:
    cluster, zone = flags.get("cluster"), flags.get("zone")
    if cluster == STAND_IN_CLUSTER and zone in (DRY_RUN_ZONE, None):
        message = "The line was made for a kubeconfig context, and xpk has no flag for its name."
        notes.problems.append(warning("import-context", "place.context", message, "Write the context's name there."))
        return {"context": "CHANGE-ME"}
    for name in ("project", "zone"):
        if not flags.get(name):
            why = "the line leaves it to saved settings; write it here, so that the workload is the same for every user"
            notes.differ(f"--{name}", why=why)
    return {name: flags[name] for name in ("project", "zone", "cluster") if flags.get(name)}


def _server_arguments(tree: Tree, flags: Flags) -> None:
    """Move XLA flags at the end of the proxy's arguments to `xla_flags`, where xsft renders them at the same place."""
    servers = {"server": "server_args", "proxy-server": "proxy_args", "worker": "worker_args"}
    xla_flags: list[str] = []
    for server, field in servers.items():
        words = flags.get(f"custom-pathways-{server}-args", "").split()
        while server == "proxy-server" and words and words[-1].startswith("--xla"):
            xla_flags.insert(0, words.pop())
        if words:
            put_field(tree, f"pathways.{field}", words)
    if xla_flags:
        tree["xla_flags"] = xla_flags


def _say_dropped(flags: Flags, notes: Notes, ignored: Mapping[str, str]) -> None:
    for flag, value in flags.items():
        text = value if isinstance(value, str) else None
        refusal = REFUSALS.get(flag.replace("-", "_"))
        if refusal and value not in ("", "0", []):  # so written, the feature is off
            notes.differ(f"--{flag}", given=text, why=f"refused ({refusal.id}): {refusal.reason}")
        elif flag in DROPPED and value:
            notes.differ(f"--{flag}", given=text, why=DROPPED[flag])
        elif flag in ignored and not _is_empty(flag, value):
            notes.differ(f"--{flag}", given=text, now=f"{FIELDS[flag]}: {text}", why=ignored[flag])


_HOLE = r"\0[0-9]+\0"


def name_fields(workload: str | None, run_name: str | None, notes: Notes) -> Tree:
    """Return `name` and `run_name_suffix`; both empty if the paste has no name."""
    name = _chosen_name(workload, run_name, notes)
    if name is None:
        return {}
    suffixes = {hole.suffix for hole in notes.holes.holes_in(name)}
    if suffixes not in ({"date"}, {"commit"}):
        return {"name": name}
    # `sft-$(date +%s)` is `sft` with run_name_suffix: date
    (suffix,) = suffixes
    base = re.sub(r"[-_.]*" + _HOLE + r"[-_.]*", "-", name).strip("-") or "sft"
    why = f"xsft import runs no command; run_name_suffix adds the {suffix} instead"
    notes.differ("run_name", given=name, now=f"{base} with run_name_suffix: {suffix}", why=why)
    return {"name": base, "run_name_suffix": suffix}


def _chosen_name(workload: str | None, run_name: str | None, notes: Notes) -> str | None:
    if run_name is None or workload is None or run_name == workload:
        return run_name if workload is None else workload
    if re.fullmatch(re.escape(run_name) + r"-[2-9]", workload):
        notes.differ("--workload", given=workload, now=run_name, why="xsft numbers later attempts itself")
        return run_name
    if _is_name(re.sub(_HOLE, "0", run_name)):
        why = "the JobSet takes the run's name, which is kept because it determines the output folder"
        notes.differ("--workload", given=workload, now=run_name, why=why)
        return run_name
    why = "the JobSet has the same name, which allows lower case, digits and dashes; the output folder has the new name"
    notes.differ("run_name", given=run_name, now=workload, why=why)
    return workload


def _is_name(name: str) -> bool:
    try:
        TypeAdapter(RunName).validate_python(name)
    except ValidationError:
        return False
    return True

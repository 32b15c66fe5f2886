"""Parse the flags of a pasted xpk line as xpk does: abbreviations, `=` or a space, the last one wins. Pure.

source: xpk@1.16.0 parser/workload.py, parser/common.py.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, NoReturn

from xsft.base.errors import SpecError
from xsft.base.problems import Problem, error
from xsft.base.secrets import redact
from xsft.spec.keypath import printable, shown_text

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

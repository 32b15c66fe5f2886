"""Tests pass limits and times as arguments: constants of xsft are patched only where this table says why."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
PATCH = re.compile(r"""setattr\(\s*(?:[\w.]+,\s*)?["'](?:[\w.]+\.)?([A-Z][A-Z0-9_]+)["'],""")
WHOLE_VERB = "a whole verb runs, and no verb has an option for it"
REGISTRY = "the registry of which the test adds an entry"
ALLOWED = {
    "runs/test_read_runs_namespace.py LATE_S": "a list that hangs would take three seconds",
    "faults/test_silent_cluster.py ALONE_S": WHOLE_VERB,
    "faults/test_silent_cluster.py SEVERAL_S": WHOLE_VERB,
    "faults/test_transports.py GRACE_S": WHOLE_VERB,
    "faults/test_transports.py LOGIN_TIMEOUT_S": WHOLE_VERB,
    "faults/test_transports.py FOR_READS": WHOLE_VERB,
    "launcher/test_second.py LAUNCHERS": REGISTRY,
    "trainer/test_second.py LAUNCHERS": REGISTRY,
    "trainer/test_second.py TRAINERS": REGISTRY,
}


def test_constants_are_patched_only_for_a_reason() -> None:
    found = {
        f"{file.relative_to(TESTS)} {name}"
        for file in TESTS.rglob("test_*.py")
        for name in PATCH.findall(file.read_text(encoding="utf-8"))
    }
    assert found == ALLOWED.keys(), "pass it as an argument, with the constant as its default"


def test_no_patched_constant_is_a_default() -> None:
    """A default is read when its function is defined: to patch its constant later changes nothing."""
    patched = "|".join({entry.split()[1] for entry in ALLOWED})
    default = re.compile(rf"^(?!\w).*\w: [\w ]+ = ({patched})\b", re.MULTILINE)
    modules = {
        part.rpartition(".")[0]: part.rpartition(".")[2]
        for file in TESTS.rglob("test_*.py")
        for part in re.findall(
            r"""setattr\(\s*["'](xsft\.[\w.]+\.[A-Z][A-Z0-9_]+)["']""", file.read_text(encoding="utf-8")
        )
    }
    found = {
        module: default.findall((TESTS.parent / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
        for module in modules
    }
    assert {module: names for module, names in found.items() if modules[module] in names} == {}

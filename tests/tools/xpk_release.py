"""Pins another release of xpk: `make xpk-release VERSION=1.17.0`.

Writes the pin and its lock, builds that environment, and prints how the options of the lines that xsft renders differ.
The contract tests, which the target runs next, say whether the release still renders what xsft expects.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.tools.maxtext_release import output
from xsft.environments import environments
from xsft.environments.installed import BuiltEnvironment

ROOT = Path(__file__).parents[2]
PIN = ROOT / "xsft" / "locks" / "xpk.in"
DUMP = ROOT / "tests" / "catalog" / "dumps" / "xpk_flags.py"

Flags = Mapping[str, Mapping[str, str]]
"""Verb -> option -> its default, as Python writes it."""


def flags(environment: BuiltEnvironment) -> Flags:
    quiet = {**os.environ, "TELEMETRY_ENABLED": "false"}
    argv = (str(environment.python), str(DUMP))
    hint = "xpk declares its options elsewhere: adapt tests/catalog/dumps/xpk_flags.py"
    flags_read: Flags = json.loads(output(argv, quiet, hint=hint))
    return flags_read


def differences(before: Flags, after: Flags) -> Iterator[str]:
    """A line for each option that came, went, or has another default."""
    for verb in sorted(before.keys() | after.keys()):
        old, new = before.get(verb, {}), after.get(verb, {})
        yield from (f"{verb} {option}: new, default {new[option]}" for option in sorted(new.keys() - old.keys()))
        yield from (f"{verb} {option}: gone" for option in sorted(old.keys() - new.keys()))
        changed = (option for option in sorted(old.keys() & new.keys()) if old[option] != new[option])
        yield from (f"{verb} {option}: default {old[option]} -> {new[option]}" for option in changed)


def pinned(text: str, version: str) -> str:
    """Raises ValueError where there is no pin to replace."""
    changed, count = re.subn(r"^xpk==\S+$", f"xpk=={version}", text, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f"{PIN} has {count} lines that pin xpk; it should have one")
    return changed


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        sys.exit("Name the release: make xpk-release VERSION=1.17.0")
    (version,) = arguments
    before, was = flags(environments.ensure("xpk", progress=print)), PIN.read_text()
    PIN.write_text(pinned(was, version))
    if subprocess.run(("make", "lock-xpk"), cwd=ROOT, check=False).returncode:
        PIN.write_text(was)
        sys.exit(f"xpk {version} could not be locked (see above); {PIN.relative_to(ROOT)} is as it was")
    after = flags(environments.ensure("xpk", progress=print))
    lines = tuple(differences(before, after)) or ("the options of both verbs are the same",)
    for line in lines:
        print(f"decide: {line}")
    print("decide: each citation `xpk@…` of a value; the tests that follow say which values moved")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

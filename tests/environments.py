"""Build what the tests need: xpk; with a fitting Python MaxText, the engine and the TPU compiler too. For make."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from xsft.effects.environments import environments, interpreters
from xsft.effects.machine.process import own_environment
from xsft.errors import XsftError


def main() -> int:
    try:
        environments.ensure("xpk", progress=say)
        if why := why_not_maxtext():
            say(f"WARNING: tests that need MaxText or the engine will be counted as not run: {why}")
        else:
            environments.ensure("maxtext", progress=say)
            environments.ensure("engine", progress=say)
            ensure_compiler()
    except XsftError as problem:
        say(f"error: {problem.message}\n  fix: {problem.fix}")
        return problem.exit_status
    return 0


def ensure_compiler() -> None:
    """Build the TPU compiler's environment where it exists."""
    here = f"{platform.system()} {platform.machine()}"
    if environments.environment_for("compiler").platform != here:
        say(f"WARNING: tests that need the TPU compiler will be counted as not run: this machine is {here}")
        return
    environments.ensure("compiler", progress=say)


def why_not_maxtext() -> str:
    spec = environments.environment_for("maxtext")
    if environments.find("maxtext") or interpreters.find(spec.pythons, env=own_environment(), home=Path.home()):
        return ""
    return f"no Python >= 3.12 was found; {interpreters.how_to_get(spec.pythons[0])}"


def say(line: str) -> None:
    print(f"xsft: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

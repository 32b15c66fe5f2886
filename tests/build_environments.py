"""Build what the tests need: xpk; with a fitting Python MaxText, the engine and the TPU compiler too. For make."""

from __future__ import annotations

import platform
import sys

from xsft.base.errors import XsftError
from xsft.environments import envbuild, environments
from xsft.machine.process import own_environment


def main() -> int:
    had_python = has_python_for_maxtext()
    try:
        for name in ("xpk", "maxtext", "engine"):
            environments.ensure(name, progress=say)
        ensure_compiler()
    except XsftError as problem:
        if not had_python and environments.find_environment("xpk"):
            say(f"WARNING: tests that need MaxText or the engine will be counted as not run: {problem.message}")
            return 0
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


def has_python_for_maxtext() -> bool:
    """Return whether this machine has a Python for MaxText; without one uv downloads it, which may be impossible."""
    pythons = environments.environment_for("maxtext").pythons
    return any(envbuild.find_python(series, own_environment()) for series in pythons)


def say(line: str) -> None:
    print(f"xsft: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

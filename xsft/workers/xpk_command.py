"""Runs xpk's command line, and tells an xpk that cannot be imported from one that refuses. Its own arguments follow."""

from __future__ import annotations

import sys

BROKEN = 99
"""Exit status if xpk cannot be imported; its reason is printed."""


def main() -> None:
    try:
        from xpk.main import main as run_xpk  # type: ignore[import-not-found]
    except Exception as problem:
        print(repr(problem))
        sys.exit(BROKEN)
    run_xpk()


if __name__ == "__main__":
    main()

"""Run `xsft` as a process (`python -m xsft`), from its first instruction to its exit status."""

import gc
import signal
import sys
from typing import Any, NoReturn

COLLECT_AFTER, OLDER_AFTER = 100_000, 50
"""Thresholds of `gc.set_threshold`. A list of 1,000 runs makes a million objects without a cycle. At Python's default
of 700, the collector takes a tenth of `xsft status`'s time and frees nothing."""


def run() -> NoReturn:
    """Run xsft; Ctrl-C ends it without a traceback, also during imports and after the verb is done.

    If the parent process ignores SIGINT (`xsft … &` in a script), xsft does too.
    """
    gc.set_threshold(COLLECT_AFTER, OLDER_AFTER)
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    _on_interrupt(signal.SIG_IGN if ignored else signal.SIG_DFL)
    from xsft.base.errors import INTERRUPTED
    from xsft.verbs.cli import main

    _on_interrupt(signal.SIG_IGN if ignored else signal.default_int_handler)
    try:
        status = main()
    except KeyboardInterrupt:  # a second Ctrl-C while the first is reported
        status = INTERRUPTED
    _on_interrupt(signal.SIG_IGN if ignored else signal.SIG_DFL)
    sys.exit(status)


def _on_interrupt(handler: Any) -> None:
    signal.signal(signal.SIGINT, handler)


if __name__ == "__main__":
    run()

"""`python -m xsft` is `xsft`: the process, from its first instruction to its exit status."""

import atexit
import gc
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Any, NoReturn

COLLECT_AFTER, OLDER_AFTER = 100_000, 50
"""Of `gc.set_threshold`. A list of 1,000 runs makes a million objects without a cycle among them, and at Python's 700
the collector takes a tenth of the time that `xsft status` has, for nothing.
"""


def run() -> NoReturn:
    """Ctrl-C ends xsft without a traceback, while it still imports and after it is done as well.

    Where whoever started xsft ignores it (`xsft … &` in a script), xsft does too.
    """
    gc.set_threshold(COLLECT_AFTER, OLDER_AFTER)
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    _on_interrupt(signal.SIG_IGN if ignored else signal.SIG_DFL)
    from xsft.cli import main
    from xsft.errors import INTERRUPTED

    _on_interrupt(signal.SIG_IGN if ignored else signal.default_int_handler)
    try:
        status = main()
    except KeyboardInterrupt:  # a second one, while the first is being told
        status = INTERRUPTED
    _on_interrupt(signal.SIG_IGN if ignored else signal.SIG_DFL)
    _leave(status)


def _leave(status: int) -> NoReturn:
    """All that others have asked for at the end, and then the end: Python would first take every module and object
    apart, which changes nothing and takes 0.05 s.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - these two are what Python itself calls
    atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # nobody reads it any more, or it is closed
            stream.flush()
    os._exit(status)


def _on_interrupt(handler: Any) -> None:
    signal.signal(signal.SIGINT, handler)


if __name__ == "__main__":
    run()

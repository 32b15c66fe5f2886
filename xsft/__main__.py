"""`python -m xsft` is `xsft`: the process, from its first instruction to its exit status."""

import signal
import sys
from typing import Any


def run() -> int:
    """Ctrl-C ends xsft without a traceback, while it still imports and after it is done as well.

    Where whoever started xsft ignores it (`xsft … &` in a script), xsft does too.
    """
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
    return status


def _on_interrupt(handler: Any) -> None:
    signal.signal(signal.SIGINT, handler)


if __name__ == "__main__":
    sys.exit(run())

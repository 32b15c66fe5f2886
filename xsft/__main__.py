"""`python -m xsft` is `xsft`: the process, from its first instruction to its exit status."""

import signal
import sys


def run() -> int:
    """Ctrl-C ends xsft without a traceback, while it still imports and after it is done as well."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from xsft.cli import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    status = main()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return status


if __name__ == "__main__":
    sys.exit(run())

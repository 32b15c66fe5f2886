"""argv -> verb -> exit status. No logic of its own: the verbs are in commands.verbs, and here is the one funnel for
errors.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from xsft.commands.verbs import parser, verb_module
from xsft.effects.machine.streams import prepare_streams


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; the exit status is the return value."""
    arguments = tuple(sys.argv[1:] if argv is None else argv)
    prepare_streams()
    try:
        status = _run(arguments)
        sys.stdout.flush()
    except SystemExit as stop:
        return _argparse_status(stop)
    except KeyboardInterrupt as stop:
        sys.stderr.writelines(f"{line}\n" for line in ("interrupted", *getattr(stop, "__notes__", ())))
        return 130
    except BrokenPipeError:
        return _reader_went_away()
    except Exception as problem:  # noqa: BLE001 - the one funnel
        from xsft.commands.failure import report

        return report(problem, arguments)
    return status


def _run(arguments: tuple[str, ...]) -> int:
    asked = next((a for a in arguments if not a.startswith("-")), "")
    top = parser(only=asked)
    args = top.parse_args(arguments)
    if args.version:
        from importlib.metadata import version

        sys.stdout.write(f"xsft {version('xsft')}\n")
        return 0
    if args.verb is None:
        top.print_help(sys.stderr)
        return 2
    return verb_module(args.verb).run(args)


def _argparse_status(stop: SystemExit) -> int:
    return stop.code if isinstance(stop.code, int) else 2


def _reader_went_away() -> int:
    """`xsft plan … | head`: no traceback, and none at interpreter exit either."""
    from xsft.effects.machine.streams import silence_stdout

    silence_stdout()
    return 141

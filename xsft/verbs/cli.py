"""argv -> verb -> exit status. No logic of its own: the verbs are in verbs.table, and all errors are reported
here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from xsft.base.errors import INTERRUPTED
from xsft.machine.streams import prepare_streams, silence_stdout
from xsft.verbs.failure import report_failure
from xsft.verbs.table import parser, verb_module


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit status."""
    arguments = tuple(sys.argv[1:] if argv is None else argv)
    prepare_streams()
    try:
        status = _run_reported(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_went_away()
    return status


def _run_reported(arguments: tuple[str, ...]) -> int:
    """Return the verb's status, or that of its error, which is reported."""
    try:
        status = _run_verb(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt as stop:
        sys.stderr.writelines(f"{line}\n" for line in ("interrupted", *getattr(stop, "__notes__", ())))
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as problem:  # noqa: BLE001 - the one funnel
        return report_failure(problem, arguments)
    return status


def _run_verb(arguments: tuple[str, ...]) -> int:
    if arguments[:1] == ("help",):
        arguments = (*arguments[1:], "--help")
    verb = next((a for a in arguments if not a.startswith("-")), "")
    top = parser(only=verb, alone=arguments[:1] == (verb,))  # an option before the verb may print them all
    try:
        args = top.parse_args(arguments)
    except SystemExit as stop:  # --help
        return stop.code if isinstance(stop.code, int) else 2
    if args.version:
        from importlib.metadata import version

        sys.stdout.write(f"xsft {version('xsft')}\n")
        return 0
    if args.verb is None:
        top.print_help(sys.stderr)
        return 2
    _use_present_name(args)
    return verb_module(args.verb, action=getattr(args, "action", None)).run(args)


def _use_present_name(args: argparse.Namespace) -> None:
    """Replace an old name by the verb that does its work, and say so on stderr."""
    if args.verb == "receipt":
        sys.stderr.write("`xsft receipt RUN` is now `xsft status RUN --receipt`\n")
        vars(args).update(verb="status", runs=[args.run], receipt=True)
    elif args.verb == "submit" and args.dry_run:
        sys.stderr.write("`xsft submit FILE --dry-run` is now `xsft plan FILE`\n")
        vars(args).update(verb="plan", files=[args.file], offline=False, part="screen")


def _reader_went_away() -> int:
    """Return the status for a pipe that its reader (such as `head`) closed: no traceback now, and none at interpreter
    exit."""
    silence_stdout()
    return 141

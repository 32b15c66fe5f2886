"""`--notify ENV_NAME`: post how a verb ended to the address in an environment variable, which only that holds."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress

from xsft.base.errors import INTERRUPTED, XsftError
from xsft.base.network_words import keeps_secrets
from xsft.base.problems import Problem, warning
from xsft.base.secrets import redact
from xsft.machine.http_session import post_notice
from xsft.machine.process import own_environment
from xsft.verbs.document import VerbDocument, document_text, print_problems, problem_documents


class NoticeDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.notice/1"):
    """What `--notify` posts at the end of `run`, `wait` and `submit --wait`."""

    text: str
    """The verb, the workload or run, and how it ended: one line, which a chat's webhook shows."""
    verb: str
    """run, wait or submit."""
    file: str | None
    """The workload as given; null for `wait`."""
    run_name: str | None
    """The run as given, or `--run-name`; null without one."""


def run_and_notify(verb_run: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Return the status of the verb, or raise its error, after its end was posted. A notice that cannot be posted is a
    warning."""
    address = _address_in(args.notify)
    status = XsftError.exit_status
    problems: tuple[Problem, ...] = ()
    try:
        status = verb_run(args)
    except XsftError as failed:
        status = failed.exit_status
        problems = failed.problems
        raise
    except KeyboardInterrupt:
        status = INTERRUPTED
        raise
    finally:
        if address is not None:
            _post(_notice(args, status=status, problems=problems), address, variable=args.notify)
    return status


def _address_in(variable: str) -> str | None:
    """Return the address in the variable; None, after a warning, if nothing may be posted there."""
    address = own_environment().get(variable, "").strip()
    with suppress(ValueError):  # not an address at all
        if address.startswith(("http://", "https://")) and keeps_secrets(address):
            return address
    reason = "holds neither an https:// address nor one on this machine" if address else "is not set"
    _warn(f"The environment variable {variable} {reason}.", fix=f"Export {variable} with an https:// address in it.")
    return None


def _notice(args: argparse.Namespace, *, status: int, problems: tuple[Problem, ...]) -> NoticeDocument:
    arguments = vars(args)
    file = arguments.get("file")
    run_name = arguments.get("run") or arguments.get("run_name")
    end = "done"
    if status:
        end = f"exit status {status}. " + " ".join(problem.message for problem in problems)
    return NoticeDocument(
        text=f"xsft {args.verb} {run_name or file}: {end}".rstrip(),
        verb=args.verb,
        file=file,
        run_name=run_name,
        problems=problem_documents(problems),
        exit_status=status,
    )


def _post(notice: NoticeDocument, address: str, *, variable: str) -> None:
    try:
        post_notice(address, redact(document_text(notice)))
    except XsftError as failed:
        _warn(f"The address in {variable}: {failed.clause}.", fix="Check the address and its server.")


def _warn(reason: str, *, fix: str) -> None:
    print_problems((warning("notice-not-sent", "--notify", f"{reason} No notice is posted.", fix),))

"""Arguments that several verbs share."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from xsft.base.amounts import seconds_of

Parsed = TypeVar("Parsed")


def add_actions(parser: argparse.ArgumentParser, actions: Mapping[str, str]) -> dict[str, argparse.ArgumentParser]:
    """Add the actions of a verb, each with a line of help, and return the parser of each."""
    choices = parser.add_subparsers(dest="action", metavar="{" + ",".join(actions) + "}", required=True)
    return {
        name: choices.add_parser(name, help=line, description=f"{line[0].upper()}{line[1:]}.")
        for name, line in actions.items()
    }


def add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="workload YAML, or - for stdin")


def add_settings(parser: argparse.ArgumentParser) -> None:
    add_set(parser)
    parser.add_argument(
        "--run-name", type=a_name, metavar="NAME", help="use this run name instead of the workload's name and suffix"
    )


def add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="A.B=C",
        help="override one key; the value is read as YAML, e.g. --set train.steps=10 (repeatable)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")


def add_offline(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--offline",
        action="store_true",
        help="read nothing outside this machine; list what was not read and is therefore unknown",
    )


def a_name(text: str) -> str:
    """Return the name; raise an error if it is empty. An unset shell variable must not select another run or
    cluster."""
    if not text.strip():
        raise argparse.ArgumentTypeError("empty value: give a name, or omit the option")
    return text


def add_notify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--notify",
        type=_variable_name,
        metavar="ENV_NAME",
        help="at the end, post one JSON document to the address in this environment variable (https, or this machine)",
    )


def _variable_name(text: str) -> str:
    """Return the name; raise an error that does not repeat it if it is not one, because an address may be a secret."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise argparse.ArgumentTypeError(
            "not the name of an environment variable. An address on the command line can be read by every user of this "
            "machine: put it into a variable, e.g. NIGHT_WEBHOOK, and pass --notify NIGHT_WEBHOOK"
        )
    return text


def argument_type(parse: Callable[[str], Parsed]) -> Callable[[str], Parsed]:
    """Return a type of argparse, which shows the ValueError that `parse` raises."""

    def parse_argument(text: str) -> Parsed:
        try:
            return parse(text)
        except ValueError as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from None

    return parse_argument


duration = argument_type(seconds_of)
"""The seconds of a duration."""


def whole_number(lowest: int = 0, highest: int = 999_999_999) -> Callable[[str], int]:
    """Return a type of argparse for a whole number within these limits."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or len(text) > 9 or not lowest <= int(text) <= highest:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {lowest:,} to {highest:,}")
        return int(text)

    return parse

"""Arguments that several verbs share, and the requests that they fill."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct, convert

from xsft.base.amounts import seconds_of

Request = TypeVar("Request", bound=Struct)


def request_of(args: argparse.Namespace, kind: type[Request], /, **more: Any) -> Request:
    """Return the request: each field is the argument of its name, or one of `more`."""
    given = {**vars(args), **more}
    return convert({name: given[name] for name in kind.__struct_fields__ if name in given}, kind)


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


def duration(text: str) -> float:
    """Return the seconds of a duration, as a type of argparse."""
    try:
        return seconds_of(text)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None


def whole_number(least: int = 0, most: int = 999_999_999) -> Callable[[str], int]:
    """Return a type of argparse for a whole number within these limits."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or len(text) > 9 or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least:,} to {most:,}")
        return int(text)

    return parse

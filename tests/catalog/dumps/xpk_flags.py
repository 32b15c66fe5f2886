"""Run by xpk's own Python: the options of the lines that xsft renders, with their defaults, as JSON on stdout."""

import argparse
import json
import sys

stdout, sys.stdout = sys.stdout, sys.stderr  # imports print; only the document goes out
from xpk.parser.core import set_parser  # noqa: E402

VERBS = ("create", "create-pathways")


def below(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and name in action.choices:
            found = action.choices[name]
            assert isinstance(found, argparse.ArgumentParser)
            return found
    raise LookupError(name)


top = argparse.ArgumentParser(prog="xpk")
set_parser(top)
workload = below(top, "workload")
flags = {
    verb: {
        option: repr(action.default) for action in below(workload, verb)._actions for option in action.option_strings
    }
    for verb in VERBS
}
stdout.write(json.dumps(flags) + "\n")

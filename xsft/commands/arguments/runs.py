"""Arguments of the verbs about runs: which run, and where to look for it."""

from __future__ import annotations

import argparse
import os
import re
import shlex

from xsft.actions.runs.log_request import STREAMS
from xsft.commands.arguments import a_name, add_json
from xsft.screen.durations import duration
from xsft.states.names import WORDS
from xsft.states.waiting import Goal, parse_goal

POLL_S = 10.0


def status_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Without RUN: active runs and those that ended in the last day. If a cluster does not answer, the last "
        "known state of its runs is shown with its age. Exit status 0 whatever the state of the runs, 5 if nothing "
        "could be read, 2 if a RUN was not found (the others are shown)."
    )
    parser.add_argument(
        "runs", nargs="*", type=a_run, metavar="RUN", help="exact run names (default: all active or recent runs)"
    )
    parser.add_argument("--all", action="store_true", help="show also runs that ended more than a day ago")
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        choices=WORDS,
        metavar="STATE",
        help=f"show only these states (repeatable): {', '.join(WORDS)}",
    )
    parser.add_argument("--mode", choices=("mcjax", "pathways"), help="show only this mode")
    parser.add_argument("--watch", action="store_true", help="refresh in place until Ctrl-C")
    parser.add_argument("--every", type=duration, metavar="TIME", help="interval of --watch (default: 5s)")
    add_where(parser)
    add_json(parser)


def why_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Exit status 0 if it could explain the state, whatever it is; 8 if nothing certain is known about the run; "
        "5 if its cluster does not answer."
    )
    add_run(parser)
    add_attempt(parser)
    add_where(parser)
    add_json(parser)


def receipt_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Exit status 0 with a receipt, also of a run that is not over; 8 if nothing is left that tells; 5 if its "
        "cluster does not answer."
    )
    add_run(parser)
    add_where(parser)
    add_json(parser)


def logs_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Without --slice, --host or --all: the one process that prints steps, which is host 0 of slice 0, or the head "
        f"under Pathways. --all shows the number of logs and opens more than {STREAMS} only with --streams. Lines of "
        "several processes are merged by time, each with its slice and host. -f continues through restarts until the "
        "run ends; restarts, waiting and the end of the run are reported on stderr. Exit status 0 whatever the "
        "result; `xsft wait` returns it."
    )
    add_run(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="follow the log until the run ends, or Ctrl-C")
    parser.add_argument("--slice", type=a_count, metavar="N", help="show this slice, numbered from 0")
    parser.add_argument(
        "--host", type=a_count, metavar="N", help="show this host of the slice, numbered from 0 (default: 0)"
    )
    parser.add_argument("--all", action="store_true", help="show all processes, or all hosts of --slice")
    parser.add_argument(
        "--streams", type=a_count, default=STREAMS, metavar="N", help="maximum number of logs at once (default: 8)"
    )
    parser.add_argument("--since", type=duration, metavar="TIME", help="show only newer lines, e.g. 10m")
    parser.add_argument("--tail", type=a_count, metavar="N", help="show only the last N lines of each process")
    add_attempt(parser)
    parser.add_argument("--timestamps", action="store_true", help="show the time of each line")
    parser.add_argument(
        "--raw", action="store_true", help="keep control characters and colours, which may act on the terminal"
    )
    add_where(parser)


def wait_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Exit status: 0 reached · 6 failed, cancelled or ended short of it · 7 timed out · 8 the run is gone and "
        "its result is unknown · 5 no cluster answered the whole time, or a failure that waiting cannot solve (an "
        "expired login), immediately. wait keeps waiting for a cluster that does not answer."
    )
    add_run(parser)
    parser.add_argument(
        "--for", dest="goal", type=_goal, default="done", metavar="WHAT", help="done (default), running, or step=N"
    )
    add_timing(parser)
    add_where(parser)
    add_json(parser)


def cancel_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Deletes only the JobSet with the UID that it shows, never another of the same name; checkpoints, records "
        "and outputs stay, and submitting the workload again resumes from the last checkpoint. Asks first, unless "
        "--yes; without a terminal, exit status 4. If the run has ended: nothing to cancel, exit status 0."
    )
    add_run(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_where(parser)
    add_json(parser)


def compare_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "The losses come from the record of a local run, else from the metrics beside the run's output and the log "
        "of the process that prints steps; the output names the source and the number of points for each run, and "
        "how its workload differs from the first one's. Exit status 8 if no run has a loss."
    )
    parser.add_argument("runs", nargs="+", type=a_run, metavar="RUN", help="exact run names")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write a picture too, .png or .svg; no file is overwritten"
    )
    add_where(parser)
    add_json(parser)


def sample_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "RUN is a run of this machine. The prompt gets the chat template of the training; each token is the most "
        "likely one (greedy), so the same call gives the same answer. MaxText itself answers, in its environment "
        "(`xsft setup maxtext`), which takes some 20 s before the first token; there is no key-value cache, so "
        "long answers of large models take long."
    )
    parser.add_argument("run", type=a_name, metavar="RUN", help="a run of this machine with a checkpoint")
    parser.add_argument(
        "--prompt", action="append", required=True, metavar="TEXT", help="the user's turn; may be given several times"
    )
    parser.add_argument("--base", action="store_true", help="print the answer of the weights before the training too")
    parser.add_argument("--step", type=_count, metavar="N", help="the checkpoint of this step (default: the newest)")
    parser.add_argument(
        "--max-new-tokens", type=_count, default=128, metavar="N", help="maximum tokens of an answer (default: 128)"
    )
    add_json(parser)


def add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=a_run, metavar="RUN", help="exact run name (or JobSet), as `xsft status` shows it")


def add_attempt(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--attempt", type=a_count, metavar="N", help="number of the submission, from 1 (default: the newest)"
    )


def a_count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0")
    return int(text)


def a_run(text: str) -> str:
    """Return the run's name, or the absolute path of a local run's folder, which has a slash as no name has."""
    return os.path.abspath(os.path.expanduser(text)) if "/" in text else text


def add_where(parser: argparse.ArgumentParser) -> None:
    """Add the options for where to look. Without them: every place of places.yaml, the clusters of runs submitted from
    here, and this machine."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--place", type=a_name, metavar="NAME", help="read only the cluster and namespace of this place of places.yaml"
    )
    where.add_argument(
        "--context", type=a_name, metavar="NAME", help="read only the cluster of this kubeconfig context"
    )
    parser.add_argument(
        "--namespace", type=a_namespace, metavar="NAME", help="Kubernetes namespace; default: the place's, or default"
    )


def where_text(args: argparse.Namespace) -> str:
    """Return these options as they were given, for a command in a message."""
    given = {"--place": args.place, "--context": args.context, "--namespace": args.namespace}
    return shlex.join(part for name, value in given.items() if value is not None for part in (name, value))


def a_namespace(text: str) -> str:
    """Return the namespace; raise an error for an invalid one. An API server answers with an empty list for it, and `no
    runs` would be wrong. source: kubernetes.io/docs/concepts/overview/working-with-objects/names, RFC 1123 label."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", a_name(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no namespace: lower-case letters, digits and dashes, at most 63")
    return text


def add_timing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout", type=duration, metavar="TIME", help="give up after this time, e.g. 90s, 10m, 2h, 1d"
    )
    parser.add_argument(
        "--poll", type=duration, default=POLL_S, metavar="TIME", help="interval between reads (default: 10s)"
    )


def _goal(text: str) -> Goal:
    try:
        return parse_goal(text)
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:10]) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)

"""Arguments of the verbs about runs: which run, and where to look for it."""

from __future__ import annotations

import argparse
import os
import re
import shlex

from xsft.base.names import MODES
from xsft.base.state_names import WORDS
from xsft.runs.log_roles import STREAMS
from xsft.runs.waiting import POLL_S, parse_goal
from xsft.verbs.arguments import a_name, add_json, add_notify, argument_type, duration, whole_number


def status_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Without RUN, it shows active runs and runs that ended in the last day. If a cluster does not answer, it shows "
        "the last known state of its runs, with the age. Exit status: 0 whatever the state of the runs · 2 a RUN was "
        "not found (the others are shown) · 5 no source could be read · 8 --receipt: no data is left."
    )
    parser.add_argument(
        "runs", nargs="*", type=a_run, metavar="RUN", help="exact run names (default: all active or recent runs)"
    )
    parser.add_argument(
        "--all", dest="everything", action="store_true", help="also show runs that ended more than a day ago"
    )
    parser.add_argument(
        "--state",
        dest="states",
        action="append",
        default=[],
        choices=WORDS,
        metavar="STATE",
        help=f"show only these states (repeatable): {', '.join(WORDS)}",
    )
    parser.add_argument("--mode", choices=MODES, help="show only this mode")
    parser.add_argument(
        "--forget", action="store_true", help="remove what this machine knows of RUN; the run is not touched"
    )
    parser.add_argument(
        "--receipt",
        action="store_true",
        help="show how long chips were in each state, and what they trained",
    )
    parser.add_argument("--watch", action="store_true", help="refresh in place until Ctrl-C")
    parser.add_argument("--every", type=duration, metavar="TIME", help="interval of --watch (default: 5s)")
    add_where(parser)
    add_json(parser)


def why_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Exit status: 0 the state is explained, whatever it is · 5 the cluster does not answer · 8 the cause is not "
        "certain."
    )
    add_run(parser)
    add_attempt(parser)
    add_where(parser)
    add_json(parser)


def receipt_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_where(parser)
    add_json(parser)


def logs_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Without --slice, --host or --all, it shows the process that prints steps: host 0 of slice 0, or the Pathways "
        f"head. To open more than {STREAMS} logs, give --streams. Lines of several processes are merged by time, "
        "each with its slice and host. -f continues through restarts until the run ends; restarts and the end of the "
        "run are reported on stderr. The exit status is 0 whatever the result of the run; use `xsft wait` to get the "
        "result."
    )
    add_run(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="follow the log until the run ends, or Ctrl-C")
    parser.add_argument(
        "--slice", dest="slice_index", type=whole_number(), metavar="N", help="show this slice; the first is 0"
    )
    parser.add_argument(
        "--host", type=whole_number(), metavar="N", help="show this host of the slice; the first is 0 (default: 0)"
    )
    parser.add_argument("--all", dest="every", action="store_true", help="show all processes, or all hosts of --slice")
    parser.add_argument(
        "--streams",
        dest="at_most",
        type=whole_number(),
        default=STREAMS,
        metavar="N",
        help="maximum number of logs at once (default: 8)",
    )
    parser.add_argument("--since", type=duration, metavar="TIME", help="show only newer lines, e.g. 10m")
    parser.add_argument("--tail", type=whole_number(), metavar="N", help="show only the last N lines of each process")
    add_attempt(parser)
    parser.add_argument("--timestamps", action="store_true", help="show the time of each line")
    parser.add_argument(
        "--raw", action="store_true", help="keep control characters and colours, which can change the terminal"
    )
    add_where(parser)


def wait_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Exit status: 0 reached · 5 no cluster answered until the timeout; or, immediately, a failure that waiting "
        "cannot solve, such as an expired login · 6 failed, cancelled, or ended before · 7 timed out · 8 the run is "
        "gone and its result is unknown. If a cluster does not answer, wait keeps waiting."
    )
    add_run(parser)
    parser.add_argument(
        "--for",
        dest="goal",
        type=argument_type(parse_goal),
        default="done",
        metavar="WHAT",
        help="wait for done (default), running, or step=N",
    )
    add_timing(parser)
    add_notify(parser)
    add_where(parser)
    add_json(parser)


def cancel_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "It deletes the JobSet by its UID, so never a newer JobSet of the same name. Checkpoints, records and outputs "
        "stay; if you submit the workload again, the run resumes from its last checkpoint. It asks first, unless --yes "
        "is given. Exit status: 0 cancelled, or the run had already ended · 4 no terminal and no --yes."
    )
    add_run(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_where(parser)
    add_json(parser)


def compare_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "For a local run, the losses come from its record; otherwise from the metrics in the run's output and from its "
        "log. For each run it prints the source, the number of points, and the differences from the first run's "
        "workload. --baseline finds the last successful runs with the same model, data, train, lora and overrides by "
        "the records in RUN's output; fewer than 3 are a note. Exit status: 6 RUN is worse than its baseline · "
        "8 no run has a loss."
    )
    parser.add_argument("runs", nargs="+", type=a_run, metavar="RUN", help="exact run names")
    parser.add_argument(
        "--baseline",
        dest="last",
        type=_last_runs,
        metavar="LAST:N",
        help="compare one RUN with the last N successful runs of its workload, N from 3 to 25",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="also write a picture, .png or .svg; existing files are not overwritten"
    )
    add_where(parser)
    add_json(parser)


def _last_runs(text: str) -> int:
    """Return N of LAST:N; xsft.runs.compare_baseline has the limits."""
    if not text.startswith("LAST:"):
        raise argparse.ArgumentTypeError(f"{text!r} is not LAST:N, e.g. LAST:7")
    return whole_number(3, 25)(text.removeprefix("LAST:"))


def sample_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "RUN is a run on this machine. The prompt gets the chat template of the training. Each token is the most "
        "likely one (greedy), so the same call gives the same answer. MaxText computes the answer, in its environment "
        "(`xsft setup maxtext`); loading takes about 20 s. There is no key-value cache, so long answers of large "
        "models are slow."
    )
    parser.add_argument("run", type=a_name, metavar="RUN", help="run on this machine that has a checkpoint")
    parser.add_argument(
        "--prompt",
        dest="prompts",
        action="append",
        required=True,
        metavar="TEXT",
        help="the user's message (repeatable)",
    )
    parser.add_argument(
        "--base", dest="with_base", action="store_true", help="also print the answer of the weights before the training"
    )
    parser.add_argument(
        "--step", type=whole_number(1), metavar="N", help="use the checkpoint of this step (default: the newest)"
    )
    parser.add_argument(
        "--max-new-tokens",
        type=whole_number(1),
        default=128,
        metavar="N",
        help="maximum tokens of an answer (default: 128)",
    )
    add_json(parser)


def add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=a_run, metavar="RUN", help="exact run name (or JobSet), as `xsft status` shows it")


def add_attempt(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--attempt", type=whole_number(), metavar="N", help="use submission number N, from 1 (default: the newest)"
    )


def a_run(text: str) -> str:
    """Return the run's name, or the absolute path of a run's folder. Only a path contains a slash."""
    if text.startswith("gs://"):
        return text
    return os.path.abspath(os.path.expanduser(text)) if "/" in text else text


def add_where(parser: argparse.ArgumentParser) -> None:
    """Add the options that select a cluster. Without them, a verb reads every place of places.yaml, the clusters of
    runs submitted from this machine, and this machine."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--place", type=a_name, metavar="NAME", help="read only the cluster and namespace of this place of places.yaml"
    )
    where.add_argument(
        "--context", type=a_name, metavar="NAME", help="read only the cluster of this kubeconfig context"
    )
    parser.add_argument(
        "--namespace",
        type=a_namespace,
        metavar="NAME",
        help="Kubernetes namespace (default: the place's; without a place, `default`)",
    )


def where_text(args: argparse.Namespace) -> str:
    """Return these options as text, for a command in a message."""
    options = {"--place": args.place, "--context": args.context, "--namespace": args.namespace}
    return shlex.join(part for name, value in options.items() if value is not None for part in (name, value))


def a_namespace(text: str) -> str:
    """Return the namespace; raise an error for an invalid one. For an invalid namespace an API server returns an empty
    list, and `no runs` would be wrong. source: kubernetes.io/docs/concepts/overview/working-with-objects/names, RFC
    1123 label."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", a_name(text)):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a namespace: use at most 63 lower-case letters, digits and dashes"
        )
    return text


def add_timing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout", dest="timeout_s", type=duration, metavar="TIME", help="stop after this time, e.g. 90s, 10m, 2h, 1d"
    )
    parser.add_argument(
        "--poll",
        dest="poll_s",
        type=duration,
        default=POLL_S,
        metavar="TIME",
        help="interval between reads (default: 3s)",
    )

"""Arguments of the verbs about workloads."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import add_files, add_json, add_offline, add_settings
from xsft.commands.arguments.runs import add_timing
from xsft.screen.durations import duration
from xsft.stages.stage import STAGES

BUDGET_S = 1800.0
DEFAULT_FILE = "workload.yaml"


def plan_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Exit status 0, or 2 if a check refuses the workload. The line under `xpk` can be copied into a shell."
    )
    add_files(parser)
    add_settings(parser)
    add_json(parser)
    add_offline(parser)
    parser.add_argument(
        "--audit", action="store_true", help="show where each field is in the manifest, not only the counts"
    )
    parser.add_argument("--manifest", action="store_true", help="print the objects that will be created, as YAML")


def fit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Exit status 0 if every step fits or is marginal, 2 if one does not fit or cannot be built. A compilation "
        "takes 2 to 6 minutes of CPU and up to 4 GiB of memory, 10 to 14 minutes and 7 GiB for deepseek3-671b; "
        "asking again takes none."
    )
    add_files(parser)
    add_settings(parser)
    add_json(parser)
    parser.add_argument(
        "--timeout", type=duration, metavar="TIME", help="stop a compilation after this time, e.g. 90s, 20m, 1h"
    )
    each = "print a table, with one verdict for each of these"
    parser.add_argument("--types", type=_list, default=[], metavar="TYPE,…", help=f"{each} TPU types")
    parser.add_argument("--slices", type=_list, default=[], metavar="N,…", help=f"{each} numbers of slices")
    parser.add_argument("--again", action="store_true", help="compile even if the verdict is known")
    parser.add_argument("--eval", action="store_true", help="compile the step of the evaluation too, if there is one")
    _add_search(parser)


def check_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser)
    add_settings(parser)
    add_json(parser)
    parser.add_argument("--notes", action="store_true", help="print the notes too, not only errors and warnings")
    add_offline(parser)
    parser.add_argument(
        "--deep", action="store_true", help="pass the arguments to the installed MaxText's own parser too (about 5 s)"
    )


def submit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="workload YAML, or - for stdin")
    add_settings(parser)
    add_json(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan only, as xsft plan does")
    parser.add_argument(
        "--through-xpk",
        action="store_true",
        help="run the xpk line itself (gcloud, kubectl); refused if it would lose a setting",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before slices of a cluster are used")
    parser.add_argument(
        "--wait", action="store_true", help="wait for the run's end; its exit status is that of xsft wait"
    )
    parser.add_argument("--follow", action="store_true", help="like --wait, and show the log meanwhile")
    add_timing(parser)


def run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Stages: convert (of model.hf), train, and those that the workload names under `stages`: evaluate, export, "
        "serve. Each is a run of its own, NAME-<stage>, and is done once: called again, the command finds what is "
        "done and continues. On a cluster Ctrl-C and --timeout end only the watching. On this machine they stop "
        "the stage, and serve is not started: its command is printed. Exit status: 0 done, or waiting with "
        "--no-wait · 6 a stage failed, or the evaluation's verdict is failed · 7 timed out."
    )
    parser.add_argument("file", metavar="FILE", help="workload YAML, or - for stdin")
    add_settings(parser)
    parser.add_argument(
        "--from", dest="first", choices=STAGES, default=STAGES[0], help="begin with this stage (default: the first)"
    )
    parser.add_argument(
        "--to", dest="last", choices=STAGES, default=STAGES[-1], help="end with this stage (default: the last)"
    )
    parser.add_argument(
        "--no-wait", action="store_true", help="on a cluster: start what can start, and end without waiting"
    )
    add_timing(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask before nodes of a cluster are used")
    add_json(parser)


def diff_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="workload YAML")
    parser.add_argument(
        "b", metavar="B", help="workload YAML; the same file again together with --set compares against it as written"
    )
    add_settings(parser)
    add_json(parser)


def init_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Exit status 4 if FILE exists; no file is overwritten."
    parser.add_argument(
        "file", nargs="?", default=DEFAULT_FILE, metavar="FILE", help="default: %(default)s; - for stdout"
    )
    parser.add_argument(
        "--model", metavar="NAME", help="MaxText's model_name, or a Hugging Face id (default: qwen3-0.6b)"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--local",
        action="store_true",
        help="write a tiny run for this machine, with the model and data that ship with xsft",
    )
    kind.add_argument(
        "--mode", choices=("mcjax", "pathways"), default="mcjax", help="how JAX is driven (default: %(default)s)"
    )


def import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "The paste is an `xpk workload create` or `create-pathways` line, with the `export` lines above it, or a "
        "page of Markdown with both in its code blocks. Problems for which `xsft plan` would refuse it are listed. "
        "Exit status 2 if values are missing: the workload is written anyway, and lists them. 4 if OUT exists."
    )
    parser.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="file with the pasted line; - (the default) for stdin"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="write the workload to this file instead of stdout")
    parser.add_argument(
        "--line", type=int, metavar="N", help="line number of the xpk line to import, if there are several"
    )
    add_json(parser)


def _add_search(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("search")
    group.add_argument(
        "--search", action="store_true", help="find the nearest configuration that fits; --types and --slices limit it"
    )
    group.add_argument(
        "--keep", nargs="+", default=[], metavar="KEY", help="keys that stay as they are, e.g. tpu max_target_length"
    )
    group.add_argument("--max-chips", type=int, metavar="N", help="chips of all slices; default: twice the workload's")
    group.add_argument(
        "--budget", type=duration, default=BUDGET_S, metavar="TIME", help="how long to search; default: 30m"
    )
    group.add_argument("--write", action="store_true", help="change the file; comments stay")


def _list(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]

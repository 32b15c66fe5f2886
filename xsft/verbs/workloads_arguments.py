"""Arguments of the verbs about workloads."""

from __future__ import annotations

import argparse

from xsft.base.names import MODES
from xsft.base.stage import STAGES
from xsft.verbs.arguments import add_files, add_json, add_notify, add_offline, add_settings, duration
from xsft.verbs.runs_arguments import add_timing

BUDGET_S = 1800.0
DEFAULT_FILE = "workload.yaml"
PLAN_PARTS = {
    "xpk": "print only the xpk command, to copy",
    "trainer": "print only the trainer's command with its environment, to copy",
    "audit": "print only the position of each field in the manifest",
    "manifest": "print only the objects that will be created, as YAML",
    "all": "print all commands, notes and counts of the audit",
}


def plan_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Exit status: 0 no error · 2 a check found an error. The last line says whether submit accepts it."
    add_files(parser)
    add_settings(parser)
    add_json(parser)
    add_offline(parser)
    parts = parser.add_mutually_exclusive_group()
    parser.set_defaults(part="screen")
    for part, what in PLAN_PARTS.items():
        parts.add_argument(f"--{part}", dest="part", action="store_const", const=part, help=what)


def fit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "A compilation takes 2 to 6 minutes of CPU and up to 4 GiB of memory (deepseek3-671b: 10 to 14 minutes and 7 "
        "GiB). The verdict is stored, so the second call takes no time. Exit status: 0 all steps fit or are marginal "
        "· 2 a step does not fit or cannot be built."
    )
    add_files(parser)
    add_settings(parser)
    add_json(parser)
    parser.add_argument(
        "--timeout",
        dest="timeout_s",
        type=duration,
        metavar="TIME",
        help="stop a compilation after this time, e.g. 90s, 20m, 1h",
    )
    each = "print a table with a verdict for each of these"
    parser.add_argument("--types", type=_list, default=[], metavar="TYPE,…", help=f"{each} TPU types")
    parser.add_argument("--slices", type=_list, default=[], metavar="N,…", help=f"{each} numbers of slices")
    parser.add_argument("--again", action="store_true", help="compile even if the verdict is known")
    parser.add_argument("--eval", action="store_true", help="also compile the evaluation step, if there is one")
    _add_search(parser)


def check_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser)
    add_settings(parser)
    add_json(parser)
    parser.add_argument("--notes", action="store_true", help="also print notes, not only errors and warnings")
    add_offline(parser)
    parser.add_argument(
        "--deep", action="store_true", help="also check the arguments with the installed MaxText's parser (about 5 s)"
    )


def submit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="workload YAML, or - for stdin")
    add_settings(parser)
    add_json(parser)
    parser.add_argument("--dry-run", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--through-xpk",
        action="store_true",
        help="run the xpk command itself (needs gcloud and kubectl); refused if xpk would lose a setting",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before slices of a cluster are used")
    parser.add_argument("--no-fit", action="store_true", help="do not compile a run that may not fit")
    add_again(parser)
    parser.add_argument(
        "--wait", action="store_true", help="wait until the run ends; the exit status is that of xsft wait"
    )
    parser.add_argument("--follow", action="store_true", help="like --wait, and show the log")
    add_timing(parser)
    add_notify(parser)


def add_again(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--again",
        action="store_true",
        help="also try a workload again that must end as its last attempt did, such as for too little memory",
    )


def run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Stages: convert (if the workload has model.hf), train, and those under `stages`: evaluate, export, serve. "
        "Each stage is a separate run, NAME-<stage>, and runs once: if you call the command again, it finds the "
        "completed stages and continues. On a cluster, Ctrl-C and --timeout end only the waiting. On this machine they "
        "stop the stage; serve is not started, and its command is printed. Exit status: 0 done, or waiting with "
        "--no-wait · 6 a stage failed, or the verdict of the evaluation is failed · 7 timed out."
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
        "--no-wait",
        dest="waits",
        action="store_false",
        help="cluster: create the stages that can start, and do not wait",
    )
    add_timing(parser)
    add_notify(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask before nodes of a cluster are used")
    add_again(parser)
    add_json(parser)


def diff_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="workload YAML")
    parser.add_argument(
        "b",
        metavar="B",
        help="workload YAML; if A and B are the same file, --set applies only to B",
    )
    parser.add_argument(
        "--manifest", action="store_true", help="also print the fields of xpk's line and of the manifest that follow"
    )
    add_settings(parser)
    add_json(parser)


def init_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Exit status 4 if FILE exists; it is not overwritten."
    parser.add_argument(
        "file",
        nargs="?",
        default=DEFAULT_FILE,
        metavar="FILE",
        help="file to write (default: %(default)s); - for stdout",
    )
    parser.add_argument(
        "--model", metavar="NAME", help="MaxText's model_name or a Hugging Face id (default: qwen3-0.6b)"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--local",
        action="store_true",
        help="write a workload for this machine, with a tiny model and data that are part of xsft",
    )
    kind.add_argument("--mode", choices=MODES, default="mcjax", help="how JAX controls hosts (default: %(default)s)")


def import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "FILE contains an `xpk workload create` or `create-pathways` command, with its `export` lines, or it is "
        "a Markdown page with both in its code blocks. xsft lists the problems for which `xsft plan` would refuse the "
        "workload. Exit status: 0 ok · 2 values are missing; the workload is written and lists them · 4 OUT exists."
    )
    parser.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="file with the pasted command (default: -, stdin)"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="write the workload to this file instead of stdout")
    parser.add_argument(
        "--line", type=int, metavar="N", help="import the xpk command that begins in line N, if there are several"
    )
    add_json(parser)


def _add_search(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("search")
    group.add_argument(
        "--search",
        action="store_true",
        help="find the nearest configuration that fits, among --types and --slices if given",
    )
    group.add_argument(
        "--keep", nargs="+", default=[], metavar="KEY", help="do not change these keys, e.g. tpu max_target_length"
    )
    group.add_argument(
        "--max-chips", type=int, metavar="N", help="maximum chips of all slices (default: twice the workload's)"
    )
    group.add_argument(
        "--budget",
        dest="budget_s",
        type=duration,
        default=BUDGET_S,
        metavar="TIME",
        help="maximum time of the search (default: 30m)",
    )
    group.add_argument("--write", action="store_true", help="write the result into the file; comments stay")


def _list(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]

"""Arguments of the verbs about data, images and weights."""

from __future__ import annotations

import argparse

from xsft.commands.arguments import a_name, add_json, add_settings
from xsft.commands.arguments.runs import a_count, add_timing
from xsft.image.context import ACCEPTABLE

DATA_ACTIONS = {
    "show": "print whole examples as the model sees them: what is trained, what is masked",
    "inspect": "count tokens, cut and untrained examples, duplicates, roles, and how well they pack",
    "prepare": "write the rows as files that many hosts read well, once; print the data section that reads them",
}
SAMPLE = 2000
"""Number of rows that are read without --all; `dataset.passes` has the same."""
MOST_SHARDS = 100_000
IMAGE_ACTIONS = {
    "build": "build what is missing, on this machine",
    "push": "build what is missing, push it, and write its digest into images/NAME.lock.json",
    "list": "list the images in the engine and in the registry",
    "show": "show what would be built, and the lock; build nothing",
}
CHECKPOINT_ACTIONS = {
    "inspect": "show what PATH is: complete or torn, its format, which models it may belong to, which modes read it",
    "convert": "convert the Hugging Face weights under model.hf of FILE into its initial checkpoint, once",
    "export": "write the weights of the training RUN as a Hugging Face folder, once, and verify it",
}
FORMS = ("full", "adapters", "merged")
DTYPES = ("bfloat16", "float32")
"""As `xsft.export.inputs`, which a parser need not load."""


def data_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Runs here, in MaxText's environment (`xsft setup maxtext`), without training, in the order of the rows. "
        "What the workload reads must be reachable from here: `--set data.hf_train_files=FILE` names a copy. Exit "
        "status 2: MaxText refuses the data, or what inspect found is an error."
    )
    said = "; ".join(f"{name}: {what}" for name, what in DATA_ACTIONS.items())
    parser.add_argument("action", choices=tuple(DATA_ACTIONS), help=said)
    parser.add_argument("file", type=a_name, metavar="FILE", help="a workload")
    add_settings(parser)
    add_json(parser)
    parser.add_argument("--all", action="store_true", help=f"read every row, not only the first {SAMPLE:,}")
    parser.add_argument(
        "--split", choices=("train", "eval"), default="train", help="split to read (default: %(default)s)"
    )
    shown = parser.add_argument_group("for show")
    shown.add_argument("-n", type=a_count, default=3, metavar="N", help="examples to show (default: %(default)s)")
    shown.add_argument("--row", type=_parse_rows, default=(), metavar="N,M", help="show these rows, numbered from 0")
    shown.add_argument("--longest", action="store_true", help="show the longest examples first")
    shown.add_argument("--truncated", action="store_true", help="show examples that fill max_target_length")
    shown.add_argument("--no-target", action="store_true", help="show examples without a trained token")
    shown.add_argument("--find", type=a_name, metavar="TEXT", help="show examples that contain this text")
    shown.add_argument("--packed", action="store_true", help="show whole sequences, as the run packs them")
    shown.add_argument("--tokens", action="store_true", help="show the ids of the tokens too")
    inspected = parser.add_argument_group("for inspect")
    inspected.add_argument("--png", metavar="FILE", help="draw the lengths as a picture; no file is overwritten")
    add_prepare(parser)


def image_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "An image is a folder under images/: Dockerfile builds the dependencies (deps-HASH), code.Dockerfile the "
        "code on top (code-HASH). The hashes are computed from the content; an existing image is not built again. "
        "A workload names it by `image: {name: post_training}`. Only `push` writes a file: the lock."
    )
    said = "; ".join(f"{name}: {what}" for name, what in IMAGE_ACTIONS.items())
    parser.add_argument("action", choices=tuple(IMAGE_ACTIONS), help=said)
    parser.add_argument(
        "--image", type=a_name, default="post_training", metavar="NAME", help="folder (default: %(default)s)"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--registry", type=a_name, metavar="REPO", help="e.g. us-docker.pkg.dev/my-project/xsft, without image or tag"
    )
    where.add_argument(
        "--place",
        type=a_name,
        metavar="NAME",
        help="use the registry of this place of places.yaml (default: its only place)",
    )
    _add_content(parser)
    parser.add_argument(
        "--pip-config", type=a_name, metavar="FILE", help="package index and its login, as in pip.conf; never stored"
    )
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        choices=ACCEPTABLE,
        metavar="ID",
        help="send the build context even if it is large (accepts image-context-large)",
    )
    parser.add_argument(
        "--create", action="store_true", help="create the Artifact Registry repository if it is missing"
    )
    add_json(parser)


def serve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "FOLDER and RUN are served on 127.0.0.1 by mlx-lm, which shares no code with MaxText and needs no GPU and "
        "no network; the newest step of RUN is exported first, unless it was. Prints one curl line when the server "
        "answers; Ctrl-C stops it (exit status 130). The engine is built by `xsft setup engine`. FILE is a "
        "workload of a cluster with stages.serve: the server is created there once, found again by the same "
        "command, and never deleted by xsft; Ctrl-C and --timeout end only the waiting. Under --json one document "
        "is printed when the server answers."
    )
    parser.add_argument(
        "model",
        type=a_name,
        metavar="FOLDER|RUN|FILE",
        help="a Hugging Face model (config.json, safetensors files and tokenizer), a training of this machine, or a"
        " workload of a cluster (.yaml)",
    )
    parser.add_argument("--port", type=_parse_port, metavar="N", help="port of 127.0.0.1 (default: a free one)")
    weights = "cluster: folder of the export, or its repository on the hub (default: what its export stage wrote)"
    parser.add_argument("--weights", type=a_name, metavar="gs://PATH", help=weights)
    parser.add_argument("--dry-run", action="store_true", help="cluster: only print the plan and its objects")
    parser.add_argument("--yes", action="store_true", help="cluster: do not ask before a machine is used")
    add_settings(parser)
    add_timing(parser)
    add_json(parser)


def checkpoint_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "PATH is a folder of this machine or gs://…, such as …/0/items of a conversion and "
        "…/checkpoints/N/model_params of a run; or a run's name: its newest checkpoint. No array is read. FILE is "
        "a workload. With target: local it is converted in MaxText's environment (`xsft setup maxtext`), else by a "
        "CPU job of the cluster; a second call finds the result. RUN is a training that was submitted from this "
        "machine. It is exported on this machine; `export FILE` exports the training of a cluster by a job there. "
        "The result is in <output>/<RUN>-export/, with the tokenizer and chat template of the training, and is "
        "complete once it is verified. Exit status of inspect 0: a complete checkpoint; 2: torn or missing; 5: it "
        "could not be read."
    )
    said = "; ".join(f"{name}: {what}" for name, what in CHECKPOINT_ACTIONS.items())
    parser.add_argument("action", choices=tuple(CHECKPOINT_ACTIONS), help=said)
    parser.add_argument(
        "what", type=a_name, metavar="PATH|FILE|RUN", help="a checkpoint or the name of a run; a workload"
    )
    add_settings(parser)
    add_json(parser)
    parser.add_argument("--dry-run", action="store_true", help="on a cluster: only print the job's plan")
    parser.add_argument("--yes", action="store_true", help="on a cluster: do not ask before a node is used")
    on_tpu = "on a cluster: convert on one host of a whole slice of the workload's TPU type; its chips are idle"
    parser.add_argument("--on-tpu", action="store_true", help=on_tpu)
    parser.add_argument("--wait", action="store_true", help="on a cluster: wait until the job ends")
    _add_export(parser)
    add_timing(parser)


def _parse_rows(text: str) -> tuple[int, ...]:
    numbers = text.split(",")
    if not all(one.isascii() and one.isdecimal() and len(one) < 10 for one in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} names no rows: write 3, or 3,5,8")
    return tuple(int(one) for one in numbers)


def add_prepare(parser: argparse.ArgumentParser) -> None:
    made = parser.add_argument_group("for prepare")
    made.add_argument(
        "--to", type=a_name, metavar="FOLDER", help="a folder or gs://… (default: <output>/data/<name>-<12 hex>)"
    )
    made.add_argument(
        "--columns",
        type=_parse_columns,
        default=(),
        metavar="A,B",
        help="columns of the source (default: the workload's)",
    )
    made.add_argument(
        "--rename",
        type=_parse_rename,
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="rename a column (repeatable)",
    )
    made.add_argument(
        "--eval-share", type=_parse_share, metavar="X", help="take this share of the rows for evaluation, e.g. 0.02"
    )
    made.add_argument(
        "--shards", type=_parse_shards, metavar="N", help="minimum number of files (default: 8 for each host)"
    )
    made.add_argument(
        "--format",
        choices=("parquet", "arrayrecord"),
        default="parquet",
        help="arrayrecord is read with data.pipeline: grain only (default: %(default)s)",
    )
    made.add_argument(
        "--from-sharegpt", action="store_true", help="convert turns with from and value to turns with role and content"
    )
    made.add_argument("--skip-bad", action="store_true", help="leave out rows that cannot be trained on")


def _parse_columns(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} names no columns: write messages, or prompt,completion")
    return names


def _parse_rename(text: str) -> tuple[str, str]:
    old, _, new = text.partition("=")
    if not old or not new:
        raise argparse.ArgumentTypeError(f"{text!r}: write OLD=NEW, e.g. conversations=messages")
    return old, new


def _parse_share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share: write a number between 0 and 1, e.g. 0.02")
    return share


def _parse_shards(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= MOST_SHARDS and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of shards: 1 to {MOST_SHARDS:,}")
    return int(text)


def _add_content(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide the image's content."""
    sources = "pypi, git+URL@COMMIT, or a folder"
    parser.add_argument(
        "--maxtext", type=a_name, metavar="VERSION", help="MaxText release (default: the one xsft builds)"
    )
    parser.add_argument(
        "--maxtext-source", type=a_name, default="pypi", metavar="SOURCE", help=f"{sources} (default: %(default)s)"
    )
    parser.add_argument(
        "--tunix-source", type=a_name, default="pypi", metavar="SOURCE", help=f"{sources} (default: %(default)s)"
    )
    parser.add_argument(
        "--base", type=a_name, metavar="IMAGE", help="base image with CPython 3.12; default: the Dockerfile's"
    )
    parser.add_argument(
        "--update-base", action="store_true", help="resolve the base's tag again instead of using the lock"
    )
    parser.add_argument("--vllm", type=a_name, metavar="REQUIREMENT", help="pip requirement; SFT does not need vLLM")
    parser.add_argument(
        "--code",
        type=a_name,
        action="append",
        default=[],
        metavar="DIR",
        help="folder to put on PYTHONPATH in the image (repeatable)",
    )
    parser.add_argument(
        "--arg", action="append", default=[], metavar="NAME=VALUE", help="additional build argument (repeatable)"
    )


def _parse_port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:6]) < 2**16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 1 to 65535")
    return int(text)


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--step", type=int, metavar="N", help="export: the checkpoint of step N (default: the newest)")
    forms = "export: weights to write (default: full, and merged after LoRA)"
    parser.add_argument("--what", dest="form", choices=FORMS, help=forms)
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16", help="export: data type of the weights")
    verify = "export: also compare logits with an independent engine, on this machine only (default: tensors)"
    parser.add_argument("--verify", choices=("tensors", "logits"), default="tensors", help=verify)
    where = "export: put it below this folder or gs://… path, or into this empty repository, not below the run's output"
    parser.add_argument("--output", metavar="FOLDER|gs://…|hf://OWNER/NAME", help=where)

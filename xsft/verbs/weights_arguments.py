"""Arguments of the verbs about data, images and weights."""

from __future__ import annotations

import argparse

from xsft.image.context import ACCEPTABLE
from xsft.verbs.arguments import a_name, add_actions, add_json, add_set, add_settings, whole_number
from xsft.verbs.runs_arguments import add_timing

DATA_ACTIONS = {
    "show": "print whole examples as the model reads them, with trained and masked tokens",
    "inspect": "count tokens, cut examples, examples without a trained token, duplicates and roles; measure packing",
    "prepare": "write the rows into one set of files for many hosts, and print the data section for them",
}
SAMPLE = 2000
"""Number of rows that are read without --all; `data.passes` has the same value."""
MOST_SHARDS = 100_000
IMAGE_ACTIONS = {
    "build": "build the missing parts on this machine",
    "push": "build the missing parts, push the image, and write its digest into images/NAME.lock.json",
    "list": "withdrawn; the message says what to use instead",
    "show": "show the image that would be built, and the lock file; build nothing",
}
CHECKPOINT_ACTIONS = {
    "inspect": "show whether PATH is complete, its format, and the models and modes it fits",
    "convert": "convert the Hugging Face weights in model.hf of FILE into an initial checkpoint",
    "export": "write the weights of RUN as a Hugging Face folder, and verify it",
}
FORMS = ("full", "adapters", "merged")
DTYPES = ("bfloat16", "float32")
"""The values of `xsft.spec.export_inputs`, repeated here so that the parser need not import it."""


def data_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "It runs on this machine, in MaxText's environment (`xsft setup maxtext`), without training. The data must be "
        "readable from this machine; `--set data.hf_train_files=FILE` names a local copy. Exit status 2 if MaxText "
        "refuses the data, or inspect found an error."
    )
    actions = add_actions(parser, DATA_ACTIONS)
    for action in actions.values():
        action.add_argument("file", type=a_name, metavar="FILE", help="workload YAML")
        add_set(action)
        add_json(action)
    for action in (actions["show"], actions["inspect"]):
        action.add_argument(
            "--all", dest="everything", action="store_true", help=f"read all rows, not only the first {SAMPLE:,}"
        )
        action.add_argument(
            "--split", choices=("train", "eval"), default="train", help="split to read (default: %(default)s)"
        )
    _add_picks(actions["show"])
    actions["inspect"].add_argument(
        "--png", metavar="FILE", help="draw the lengths into a picture; existing files are not overwritten"
    )
    _add_prepare(actions["prepare"])


def _add_picks(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the examples to show."""
    parser.add_argument(
        "-n", dest="count", type=whole_number(), default=3, metavar="N", help="show N examples (default: %(default)s)"
    )
    parser.add_argument(
        "--row", dest="rows", type=_parse_rows, default=(), metavar="N,M", help="show these rows; the first is 0"
    )
    parser.add_argument("--longest", action="store_true", help="show the longest examples first")
    parser.add_argument("--truncated", action="store_true", help="show examples that fill max_target_length")
    parser.add_argument("--no-target", action="store_true", help="show examples without a trained token")
    parser.add_argument("--find", type=a_name, metavar="TEXT", help="show examples that contain this text")
    parser.add_argument("--packed", action="store_true", help="show whole packed sequences")
    parser.add_argument("--tokens", action="store_true", help="also show the token ids")


def image_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Each image is a folder under images/. Its Dockerfile builds the dependencies (deps-HASH) in Docker, once; "
        "push adds the code (code-HASH) through the registry's API, without Docker. The hashes are computed from the "
        "content; an existing image is not built again. The options of the last push are repeated. A workload uses "
        "the image with `image: {name: post_training}`."
    )
    actions = add_actions(parser, IMAGE_ACTIONS)
    for action in actions.values():
        _add_image(action)
    parser.set_defaults(create=False)
    actions["push"].add_argument(
        "--create", action="store_true", help="create the Artifact Registry repository if it does not exist"
    )


def _add_image(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the image."""
    parser.add_argument(
        "--image", type=a_name, default="post_training", metavar="NAME", help="folder in images/ (default: %(default)s)"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--registry",
        type=a_name,
        metavar="REPO",
        help="repository without image and tag, e.g. us-docker.pkg.dev/my-project/xsft",
    )
    where.add_argument(
        "--place",
        type=a_name,
        metavar="NAME",
        help="use the registry of this place of places.yaml (default: its only place)",
    )
    _add_content(parser)
    parser.add_argument(
        "--forget",
        dest="forgets",
        action="store_true",
        help="begin with the defaults, not with the options of the last push",
    )
    parser.add_argument(
        "--pip-config", type=a_name, metavar="FILE", help="pip.conf with the package index and its login; never stored"
    )
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        choices=ACCEPTABLE,
        metavar="ID",
        help="accept a problem: image-context-large sends large files, disk-full builds with little free space",
    )
    add_json(parser)


def serve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "FOLDER or RUN: mlx-lm serves it on 127.0.0.1, without a GPU or a network (`xsft setup engine` installs "
        "mlx-lm). The newest step of RUN is exported first, if necessary. When the server answers, xsft prints a curl "
        "command. Ctrl-C stops the server (exit status 130). FILE: a workload of a cluster, with stages.serve. xsft "
        "creates the server on the cluster once; the same command finds it again. xsft cancel deletes it. Ctrl-C and "
        "--timeout end only the waiting. With --json, one document is printed when the server answers."
    )
    parser.add_argument(
        "model",
        type=a_name,
        metavar="FOLDER|RUN|FILE",
        help="folder with a Hugging Face model (config.json, safetensors files and tokenizer), run on this machine, or"
        " workload YAML of a cluster",
    )
    parser.add_argument(
        "--port", type=whole_number(1, 65_535), metavar="N", help="port of 127.0.0.1 (default: a free one)"
    )
    weights = "cluster: folder or hub repository of the export (default: the result of the export stage)"
    parser.add_argument("--weights", type=a_name, metavar="gs://PATH", help=weights)
    parser.add_argument(
        "--dry-run", action="store_true", help="cluster: print the plan and its objects; create nothing"
    )
    parser.add_argument("--yes", action="store_true", help="cluster: do not ask before the server is created")
    add_settings(parser)
    add_timing(parser)
    add_json(parser)


def checkpoint_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, CHECKPOINT_ACTIONS)
    inspect, convert, export = (actions[name] for name in CHECKPOINT_ACTIONS)
    inspect.epilog = (
        "PATH is a local folder or gs://…, such as …/0/items or …/checkpoints/N/model_params, or a run's name (its "
        "newest checkpoint). Arrays are not read. Exit status: 0 complete · 2 torn or missing · 5 could not be read."
    )
    inspect.add_argument("what", type=a_name, metavar="PATH", help="checkpoint, or name of a run")
    add_json(inspect)
    convert.epilog = (
        "With target: local it runs in MaxText's environment (`xsft setup maxtext`), otherwise in a CPU job on the "
        "cluster. A second call finds the result."
    )
    convert.add_argument("what", type=a_name, metavar="FILE", help="workload YAML")
    on_tpu = "cluster: convert on one host of a TPU slice of the workload's type; the chips are idle"
    convert.add_argument("--on-tpu", action="store_true", help=on_tpu)
    export.epilog = (
        "RUN was submitted from this machine and is exported on this machine; with FILE, a job exports the training on "
        "its cluster. The result is in <output>/<RUN>-export/, with the tokenizer and chat template of the training. "
        "It is complete when it is verified."
    )
    export.add_argument("what", type=a_name, metavar="RUN|FILE", help="name of a run, or workload YAML")
    _add_export(export)
    for action in (convert, export):
        _add_job(action)


def _add_job(parser: argparse.ArgumentParser) -> None:
    """Add the options of work that a cluster may do."""
    add_settings(parser)
    add_json(parser)
    parser.add_argument("--dry-run", action="store_true", help="cluster: print the job's plan; create nothing")
    parser.add_argument("--yes", action="store_true", help="cluster: do not ask before a node is used")
    parser.add_argument("--wait", action="store_true", help="cluster: wait until the job ends")
    add_timing(parser)


def _parse_rows(text: str) -> tuple[int, ...]:
    numbers = text.split(",")
    if not all(number.isascii() and number.isdecimal() and len(number) < 10 for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of rows: write 3, or 3,5,8")
    return tuple(map(int, numbers))


def _add_prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to",
        type=a_name,
        metavar="FOLDER",
        help="write to this folder or gs://… (default: <output>/data/<name>-<12 hex>)",
    )
    parser.add_argument(
        "--columns",
        type=_parse_columns,
        default=(),
        metavar="A,B",
        help="write only these columns (default: the workload's)",
    )
    parser.add_argument(
        "--rename",
        dest="renames",
        type=_parse_rename,
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="rename a column (repeatable); the texts of columns with one new name are joined",
    )
    parser.add_argument(
        "--eval-share", type=_parse_share, metavar="X", help="keep this share of the rows for evaluation, e.g. 0.02"
    )
    parser.add_argument(
        "--shards",
        type=whole_number(1, MOST_SHARDS),
        metavar="N",
        help="write at least N files (default: 8 for each host)",
    )
    parser.add_argument(
        "--format",
        choices=("parquet", "arrayrecord"),
        default="parquet",
        help="format of the files; only data.pipeline: grain reads arrayrecord (default: %(default)s)",
    )
    parser.add_argument(
        "--from-sharegpt",
        dest="sharegpt",
        action="store_true",
        help="convert messages with from and value to role and content",
    )
    parser.add_argument("--skip-bad", action="store_true", help="leave out rows that cannot be trained on")


def _parse_columns(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of columns: write messages, or prompt,completion")
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
        raise argparse.ArgumentTypeError(f"{text!r} is not a share: write a number between 0 and 1, e.g. 0.02")
    return share


def _add_content(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide the image's content."""
    sources = "pypi, git+URL@COMMIT, or a folder (default: as in the last push, or pypi)"
    parser.add_argument(
        "--maxtext", type=a_name, metavar="VERSION", help="MaxText release (default: the one that xsft installs)"
    )
    parser.add_argument("--maxtext-source", type=a_name, metavar="SOURCE", help=f"MaxText: {sources}")
    parser.add_argument("--tunix-source", type=a_name, metavar="SOURCE", help=f"Tunix: {sources}")
    parser.add_argument(
        "--base", type=a_name, metavar="IMAGE", help="base image with CPython 3.12 (default: the Dockerfile's)"
    )
    parser.add_argument(
        "--update-base",
        dest="updates_base",
        action="store_true",
        help="resolve the tag of the base image again",
    )
    parser.add_argument(
        "--vllm", type=a_name, metavar="REQUIREMENT", help="install vLLM by this pip requirement; SFT does not need it"
    )
    parser.add_argument(
        "--code",
        type=a_name,
        action="append",
        default=[],
        metavar="DIR",
        help="copy this folder into the image, and put it on PYTHONPATH (repeatable)",
    )
    parser.add_argument(
        "--arg", action="append", default=[], metavar="NAME=VALUE", help="pass another build argument (repeatable)"
    )


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--step", type=int, metavar="N", help="use the checkpoint of step N (default: newest)")
    forms = "weights to write (default: full; after LoRA, merged)"
    parser.add_argument("--what", dest="form", choices=FORMS, help=forms)
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16", help="data type of the weights")
    verify = "with logits, also compare logits with mlx-lm, only on this machine (default: tensors)"
    parser.add_argument("--verify", choices=("tensors", "logits"), default="tensors", help=verify)
    where = "write below this folder or gs:// path, or into this empty repository (default: the run's output)"
    parser.add_argument("--output", metavar="FOLDER|gs://…|hf://OWNER/NAME", help=where)

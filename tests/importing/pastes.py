"""A paste as people have it: MaxText's multi-host tutorial with its exports."""

from __future__ import annotations

import shlex

from tests.test_tutorial import Tutorial

TOKEN = "hf_" + "Ab1" * 12
"""Shaped like a token; put together here so that no file holds one."""

CURRENT = "python3 -m maxtext.trainers.post_train.sft.train_sft"

EXPORTS = """\
# -- Google Cloud --
export PROJECT_ID=my-project   # yours
export GKE_CLUSTER=my-cluster ZONE="us-east5-b"
export RUN_NAME=sft-$(date +%s)
export TPU_TYPE=v6e-256
export NUM_SLICES=2
export DOCKER_IMAGE=gcr.io/${PROJECT_ID}/sft
export BASE_OUTPUT_DIRECTORY=gs://my-bucket/my-output-directory
export MAXTEXT_CKPT_PATH=gs://my-bucket/ckpt/0/items
export STEPS=1000
export MODEL=deepseek3-671b
export DATASET_NAME=HuggingFaceH4/ultrachat_200k
export TRAIN_SPLIT=train_sft
export TRAIN_DATA_COLUMNS="['messages']"
"""

LINE = """\
xpk workload create \\
--cluster=${GKE_CLUSTER?} \\
--project=${PROJECT_ID?} \\
--zone ${ZONE?} \\
--docker-image="${DOCKER_IMAGE}" \\
--workload=${RUN_NAME} \\
--tpu-type=$TPU_TYPE \\
--num-sl ${NUM_SLICES:-1} \\
--command "%s run_name=$RUN_NAME base_output_directory=$BASE_OUTPUT_DIRECTORY model_name=$MODEL \
load_parameters_path=$MAXTEXT_CKPT_PATH hf_access_token=$HF_TOKEN per_device_batch_size=1 steps=$STEPS \
profiler=xplane hf_path=$DATASET_NAME train_split=$TRAIN_SPLIT train_data_columns=$TRAIN_DATA_COLUMNS%s"
"""


def paste(*, exports: str = EXPORTS, more: str = "") -> str:
    """The tutorial's command in McJAX; `more` is appended to the trainer's arguments."""
    return f"{exports}export HF_TOKEN={TOKEN}\n" + LINE % (CURRENT, more)


def flags(*, workload: str = "sft-1763700000") -> str:
    return (
        "--cluster=my-cluster --project=my-project --zone=us-east5-b --docker-image=gcr.io/my-project/sft "
        f"--workload={workload} --tpu-type=v6e-256 --num-slices=2"
    )


def pasted(tutorial: Tutorial) -> str:
    """A tutorial's command on an xpk line."""
    command = shlex.quote(" ".join((*tutorial.environment, *tutorial.argv)).replace("['", "\"['").replace("']", "']\""))
    verb = "create-pathways" if tutorial.environment else "create"
    return f"export HF_TOKEN={TOKEN}\nxpk workload {verb} {flags()} --command {command}\n"

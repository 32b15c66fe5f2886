"""The sections of a workload: model, data, training, parallelism and others. Values that xsft passes to MaxText
unchanged have MaxText's names."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from xsft.base import forms
from xsft.spec.base import DnsLabel, EnvName, GcsUri, ImageRef, LabelName, Section, StoragePath

Axis = Literal[
    "data",
    "fsdp",
    "fsdp_transpose",
    "sequence",
    "context",
    "context_autoregressive",
    "tensor",
    "tensor_sequence",
    "tensor_transpose",
    "expert",
    "pipeline",
    "autoregressive",
    "diloco",
]
"""Logical mesh axis; `ici.fsdp` becomes MaxText's `ici_fsdp_parallelism`."""

AxisSize = Annotated[int, Field(ge=-1)]
"""Size of the axis; -1 takes the remaining devices, and may be used once per group."""

HubWeights = Annotated[str, StringConstraints(pattern=forms.HUB_ID_OR_FOLDER)]

MOST_STEPS = 2**31 - 1
"""Maximum number of steps: optax counts them in int32; source: optax@0.2.6 numerics.py."""
MOST_TOKENS = 2**26
"""Maximum tokens of one sequence: six times the longest context in MaxText's catalogue (llama4, 10,485,760)."""
MOST_SEQUENCES = 2**20
"""Maximum sequences per device and step, far beyond any memory. It keeps products in checks exact in a double."""

Steps = Annotated[int, Field(ge=1, le=MOST_STEPS)]
BatchSize = Annotated[float, Field(gt=0, le=MOST_SEQUENCES)]

Token = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=forms.PRINTABLE)]
"""The text of one entry of a vocabulary."""


class Tpu(Section):
    """The TPU slices of the run."""

    type: str
    """xpk's TPU type, e.g. `v6e-256` or `v5p-2x2x4`."""
    num_slices: int = Field(default=1, ge=1, le=999)
    """Number of slices, connected by the data-centre network."""
    capacity: Literal["on-demand", "spot", "reservation"] | None = None
    """Capacity type of the nodes; if unset, any node of the TPU type."""
    reservation: Annotated[str, StringConstraints(pattern=forms.RESERVATION)] | None = None
    """Reservation name or path, with `capacity: reservation`."""


class HubModel(Section):
    """Hugging Face weights, converted once before the run."""

    repo: HubWeights
    """Repository, e.g. `Qwen/Qwen3-0.6B`; with `target: local` also a folder, e.g. `./my-model`."""
    revision: str | None = None
    """Commit, tag or branch on the hub (MaxText ≥ 0.2.5). To pin the weights, give a commit."""
    converted: StoragePath | None = None
    """Directory of the converted checkpoint (`<converted>/0/items`); if unset,
    `<output>/converted/<model name>-<12 hex digits>`, a digest of the inputs.
    """


class Model(Section):
    """The model to train, and its initial weights."""

    name: str
    """MaxText's model_name, e.g. `deepseek3-671b`."""
    tokenizer: StoragePath | None = None
    """Hugging Face tokenizer (`deepseek-ai/DeepSeek-V3`) or its folder; if unset, MaxText ≥ 0.2.1 selects the tokenizer
    of most models.
    """
    tokenizer_revision: str | None = None
    """Commit, tag or branch of the tokenizer on the hub; if unset, `hf.revision` if it is the same repository, else the
    commit that the hub has at planning (if it does not answer then, each start reads the newest). MaxText has no key
    for it, so each host copies the tokenizer at that revision before the trainer starts.
    """
    pad_token: Token | None = None
    """Pad token to use instead of the tokenizer's, e.g. `<｜▁pad▁｜>`. MaxText masks this token, so it must not be the
    token that ends an answer. Each host copies the tokenizer with this pad token before the trainer starts.
    """
    bos_token: Token | None = None
    """BOS token to use instead of the tokenizer's, if that token ends an answer (Olmo 3): any token that is in no
    text."""
    checkpoint: StoragePath | None = None
    """Initial weights (load_parameters_path): an Orbax directory with the file `_METADATA`, e.g.
    `gs://my-bucket/model/0/items`.
    """
    hf: HubModel | None = None
    """Hugging Face weights to convert; use either this or `checkpoint`."""
    scan_layers: bool | None = None
    """Whether the layers are stacked into one scan; if unset, MaxText ≥ 0.2.4 reads this from the checkpoint."""


class Data(Section):
    """The training data, in the keys of MaxText's input pipeline."""

    pipeline: Literal["hf", "grain"] | None = None
    """Input pipeline (dataset_type). `hf`, MaxText's default in SFT, streams; `grain` reads files with
    `hf_path: parquet` or `hf_path: arrayrecord` (MaxText ≥ 0.2.2).
    """
    hf_path: StoragePath
    """Dataset on the hub (`HuggingFaceH4/ultrachat_200k`), or `json` or `parquet` with `hf_train_files`. With
    `pipeline: grain`, the value is passed as grain_file_type.
    """
    hf_name: str | None = None
    """Configuration of the dataset, e.g. `main`."""
    hf_data_dir: str | None = None
    """Folder with the files in the dataset's repository, if it has several."""
    hf_train_files: StoragePath | None = None
    """File or glob, e.g. `gs://my-bucket/ultrachat/train_sft-*.parquet`."""
    hf_eval_files: StoragePath | None = None
    """File or glob for evaluation."""
    train_split: str = "train"
    """Name of the split, e.g. `train_sft`; for files, `train`. Slices such as `train[:10%]` are not possible."""
    hf_eval_split: str | None = None
    """Name of the split for evaluation, e.g. `test_sft`; not needed with `hf_eval_files`."""
    columns: list[str] = Field(min_length=1)
    """Columns of the data (train_data_columns): `[messages]`, `[prompt, completion]` or `[question, answer]`."""
    eval_columns: list[str] | None = None
    """Columns of the evaluation data (eval_data_columns); if unset, `columns`."""
    chat_template: Annotated[str, StringConstraints(min_length=1)] | None = None
    """Template file, relative to the workload; its content is passed on the command line (MaxText ≥ 0.2.1). `.jinja`: a
    chat template. `.json`: `chat_template`, or for [question, answer] columns PROMPT_TEMPLATE, COMPLETION_TEMPLATE and
    REASONING_ANSWER_SEPARATOR.
    """
    formatting_func: str | None = None
    """Function in the image that turns these columns into `messages` (formatting_func_path, MaxText ≥ 0.2.2)."""
    packing: bool | None = None
    """Whether one sequence contains several examples; sft.yml's default is true."""
    completion_only: bool | None = None
    """Whether only the answers count in the loss (sft_train_on_completion_only); sft.yml's default is true."""
    shuffle: bool | None = None
    """Whether rows are shuffled (enable_data_shuffling); MaxText's default is true."""
    shuffle_seed: int | None = Field(default=None, ge=0, lt=2**31)
    """Shuffle seed of the run's first start (data_shuffle_seed); MaxText's default is 0. For restarts, see
    `restarts.data`."""
    num_epoch: int | None = Field(default=None, ge=1, le=10**6)
    """Number of passes over the data; if the data ends before `steps`, the run ends early."""
    rows: int | None = Field(default=None, ge=1, le=10**15)
    """Number of examples in the training split, if you know it; xsft then checks `steps` against it."""


class Eval(Section):
    """Evaluation during training."""

    interval: Steps
    """Training steps between evaluations; the first evaluation runs before step 1."""
    steps: int = Field(default=-1, ge=-1, le=MOST_STEPS)
    """Batches per evaluation; -1 takes the whole split."""
    per_device_batch_size: BatchSize | None = None
    """Sequences per device and evaluation batch (eval_per_device_batch_size); if unset, as in training."""


class Train(Section):
    """The training schedule."""

    steps: Steps
    """Training steps of the whole run, including the steps before a restart."""
    per_device_batch_size: BatchSize
    """Sequences per device and step (a tpu7x chip is two devices); with a fraction, a step has fewer sequences than
    devices."""
    max_target_length: int | None = Field(default=None, ge=1, le=MOST_TOKENS)
    """Tokens per sequence; MaxText's default is 2048."""
    learning_rate: float | None = Field(default=None, gt=0, le=1e6)
    """Peak learning rate; sft.yml's default is 2e-5."""
    gradient_accumulation_steps: int | None = Field(default=None, ge=1, le=MOST_SEQUENCES)
    """Number of batches whose gradients are added for one step; MaxText's default is 1."""
    weight_dtype: Literal["float32", "bfloat16"] | None = None
    """Data type of the weights; MaxText's default is float32."""
    checkpoint_period: Steps | None = None
    """Steps between saved checkpoints; if unset, max(50, steps/10). With MaxText's default of 10,000, a preemption
    would lose all steps.
    """
    profiler: Literal["xplane"] | None = None
    """Profiler that traces a few steps for TensorBoard."""


class Lora(Section):
    """LoRA: train only adapters (Tunix/Qwix, MaxText ≥ 0.2.3)."""

    rank: int = Field(ge=1, le=2**20)
    """Rank of the adapters (lora.lora_rank)."""
    alpha: float = Field(gt=0, le=1e9)
    """Scale of the update: it is multiplied by alpha / rank (lora.lora_alpha)."""
    module_path: str | None = None
    """Regular expression for the modules to adapt; if unset, MaxText's default for the model, if it has one."""
    weight_qtype: Literal["nf4", "int8", "int4"] | None = None
    """Type to which the frozen weights are quantised (QLoRA); if unset, they are not quantised."""
    restore_path: StoragePath | None = None
    """Path of the adapter from which training starts."""


class Parallelism(Section):
    """The mesh: sizes of the axes over the chips of a slice (ici) and over the slices (dcn)."""

    ici: dict[Axis, AxisSize] = Field(default_factory=dict)
    """Axes within a slice. The product must equal the devices of one slice: its chips, on tpu7x twice its chips. If
    unset, fsdp has all."""
    dcn: dict[Axis, AxisSize] = Field(default_factory=dict)
    """Axes over the slices. The product must equal num_slices. If unset, data has all."""


class Image(Section):
    """The container image, and the MaxText release in it."""

    name: Annotated[str, StringConstraints(pattern=forms.IMAGE_NAME)] | None = None
    """Image of a folder under images/, e.g. `post_training`. The run uses the digest that `xsft image push` wrote into
    the lock file for the place's registry. Use either this or `ref`.
    """
    ref: ImageRef | None = None
    """Reference of any image, e.g. `us-docker.pkg.dev/my-project/xsft/post-training@sha256:…`."""
    maxtext: str = "0.2.5"
    """MaxText release in the image; it determines the layout and the accepted keys."""
    pull_secret: DnsLabel | None = None
    """Kubernetes Secret of type dockerconfigjson, to pull the image."""


class SecretKey(Section):
    """A key of a Kubernetes Secret, mounted as a file."""

    secret: DnsLabel
    """Name of the Secret, in the run's namespace."""
    key: Annotated[str, StringConstraints(pattern=forms.SECRET_KEY, max_length=253)] = "token"
    """Key in the Secret's data."""


class SecretVariable(Section):
    """An environment variable of the trainer, from a key of a Kubernetes Secret."""

    secret: DnsLabel
    """Name of the Secret, in the run's namespace."""
    key: Annotated[str, StringConstraints(pattern=forms.SECRET_KEY, max_length=253)] = "token"
    """Key in the Secret's data."""
    as_file: bool = False
    """Mount the key as a file; the variable then holds the file's path, as `NETRC` does."""


class Secrets(Section):
    """Kubernetes Secrets that the run needs."""

    hf_token: SecretKey | None = None
    """Hugging Face token. It is mounted as a file; in the pod, `HF_TOKEN_PATH` names the file."""
    env: dict[EnvName, SecretVariable] = Field(default_factory=dict)
    """Environment variables of the process that trains on a cluster: `{WANDB_API_KEY: {secret: wandb, key: token}}`."""


class Pods(Section):
    """Account, labels and annotations of the pods of this workload's JobSets. They do not change the run's digest."""

    service_account: DnsLabel | None = None
    """Kubernetes ServiceAccount; if unset, the namespace's default."""
    labels: dict[LabelName, Annotated[str, StringConstraints(pattern=forms.LABEL_VALUE, max_length=63)]] = Field(
        default_factory=dict
    )
    """Labels of the pods, e.g. `{cost-centre: nlp}`."""
    annotations: dict[LabelName, str] = Field(default_factory=dict)
    """Annotations of the pods."""


class Restarts(Section):
    """Restarts after a container ends with an error."""

    max: int = Field(default=0, ge=0, le=1000)
    """Maximum number of restarts (maxRestarts of the JobSet)."""
    on_exit_codes: list[Annotated[int, Field(ge=1, le=255)]] = Field(default_factory=list)
    """Exit codes that restart the run, in addition to 42 and 127–255."""
    data: Literal["reshuffle", "repeat"] | None = None
    """Order of the rows after a restart. A resumed run reads its data from the first row again: in another order
    (`reshuffle`, with another data_shuffle_seed) or in the same order (`repeat`). If unset, `reshuffle` for shuffled
    data."""
    grace_period_s: int | None = Field(default=None, ge=0, le=86400)
    """Seconds between SIGTERM and SIGKILL; xpk's default is 30."""


class Pathways(Section):
    """The servers of Pathways, for `mode: pathways`."""

    proxy_image: ImageRef | None = None
    """Image of the proxy, with a fixed tag or digest; if unset, the place's."""
    server_image: ImageRef | None = None
    """Image of the resource manager and the workers, from the same release as the proxy; if unset, the place's."""
    scratch: GcsUri | None = None
    """Bucket for temporary files (--pathways-gcs-location); if unset, the place's."""
    server_args: list[str] = Field(default_factory=list)
    """Arguments of the resource manager, one flag each; a value must not contain spaces, because xpk splits there."""
    proxy_args: list[str] = Field(default_factory=list)
    """Arguments of the proxy, in addition to `xla_flags`."""
    worker_args: list[str] = Field(default_factory=list)
    """Arguments of all workers."""

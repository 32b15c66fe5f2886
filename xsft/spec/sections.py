"""The sections of a workload: model, data, training, parallelism and the rest. Values that are passed through have
MaxText's names."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from xsft.spec import forms
from xsft.spec.base import DnsLabel, GcsUri, ImageRef, Section, StoragePath

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
"""A logical mesh axis; `ici.fsdp` becomes MaxText's `ici_fsdp_parallelism`."""

AxisSize = Annotated[int, Field(ge=-1)]
"""Ways in which the axis is split; -1 takes what is left, once per group."""

HubWeights = Annotated[str, StringConstraints(pattern=forms.HUB_ID_OR_FOLDER)]

MOST_STEPS = 2**31 - 1
"""Maximum steps: optax counts them in int32; source: optax@0.2.6 numerics.py."""
MOST_TOKENS = 2**26
"""Maximum tokens of one sequence: six times the longest context in MaxText's catalogue (llama4, 10,485,760)."""
MOST_SEQUENCES = 2**20
"""Maximum sequences of one device and step; far beyond any memory. Products in checks stay exact whole numbers of a
double."""

Steps = Annotated[int, Field(ge=1, le=MOST_STEPS)]
BatchSize = Annotated[float, Field(gt=0, le=MOST_SEQUENCES)]

Token = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=forms.PRINTABLE)]
"""The text of one entry of a vocabulary."""


class Tpu(Section):
    """The TPU slices of the run."""

    type: str
    """xpk's TPU type, e.g. `v6e-256` or `v5p-2x2x4`."""
    num_slices: int = Field(default=1, ge=1, le=999)
    """Slices joined over the data-centre network."""
    capacity: Literal["on-demand", "spot", "reservation"] | None = None
    """Required capacity of the nodes; if unset, that of the cluster's node pools."""
    reservation: Annotated[str, StringConstraints(pattern=forms.RESERVATION)] | None = None
    """Reservation name or path, with `capacity: reservation`."""


class HubModel(Section):
    """Hugging Face weights, converted once before the run."""

    repo: HubWeights
    """Repository, e.g. `Qwen/Qwen3-0.6B`; with `target: local` also a folder, e.g. `./my-model`."""
    revision: str | None = None
    """Commit, tag or branch on the hub; conversions of MaxText ≥ 0.2.5 take it. Only a commit always means the same
    weights."""
    converted: StoragePath | None = None
    """Directory for the converted checkpoint (`<converted>/0/items`); default
    `<output>/converted/<model name>-<12 hex digits of what is converted>`.
    """


class Model(Section):
    """The model to train, and its initial weights."""

    name: str
    """MaxText's model_name, e.g. `deepseek3-671b`."""
    tokenizer: StoragePath | None = None
    """Hugging Face tokenizer (`deepseek-ai/DeepSeek-V3`) or its folder; MaxText ≥ 0.2.1 knows the one of most models.
    """
    pad_token: Token | None = None
    """Pad token in place of the tokenizer's own, e.g. `<｜▁pad▁｜>`: MaxText trains no target equal to it, so it must
    not end an answer. Each host copies the tokenizer with this pad token before the trainer starts.
    """
    bos_token: Token | None = None
    """Like `pad_token`, for tokenizers whose BOS ends an answer (Olmo 3): any token that no text uses."""
    checkpoint: StoragePath | None = None
    """Initial parameters (load_parameters_path): an Orbax directory that holds `_METADATA`, e.g.
    `gs://my-bucket/model/0/items`.
    """
    hf: HubModel | None = None
    """Convert these Hugging Face weights instead; not together with `checkpoint`."""
    scan_layers: bool | None = None
    """Whether layers are stacked in one scan; if unset, MaxText ≥ 0.2.4 reads it from the checkpoint."""


class Data(Section):
    """The training data, as MaxText's pipeline reads it."""

    pipeline: Literal["hf", "grain"] | None = None
    """MaxText's dataset_type. `hf`, its default in SFT, streams; `grain` reads files, `hf_path: parquet` or
    `arrayrecord` (MaxText ≥ 0.2.2).
    """
    hf_path: StoragePath
    """Dataset on the hub (`HuggingFaceH4/ultrachat_200k`), or `json` / `parquet` together with `hf_train_files`. With
    `pipeline: grain` it becomes grain_file_type.
    """
    hf_name: str | None = None
    """Configuration of the dataset, e.g. `main`."""
    hf_data_dir: str | None = None
    """Folder of the dataset's repository that holds the files, if it has several."""
    hf_train_files: StoragePath | None = None
    """File or glob, e.g. `gs://my-bucket/ultrachat/train_sft-*.parquet`."""
    hf_eval_files: StoragePath | None = None
    """Like `hf_train_files`, for evaluation."""
    train_split: str = "train"
    """Split of the dataset, by name: a stream has no slices. `train` for files."""
    hf_eval_split: str | None = None
    """Split for evaluation, by name, e.g. `test_sft`; not needed with `hf_eval_files`."""
    columns: list[str] = Field(min_length=1)
    """train_data_columns: `[messages]`, `[prompt, completion]` or `[question, answer]`."""
    eval_columns: list[str] | None = None
    """eval_data_columns; if unset, the same as `columns`."""
    chat_template: Annotated[str, StringConstraints(min_length=1)] | None = None
    """Template file beside this workload, whose content goes on the command line (MaxText ≥ 0.2.1). `.jinja`: the
    conversation's. `.json`: `chat_template`, or the PROMPT_TEMPLATE, COMPLETION_TEMPLATE and REASONING_ANSWER_SEPARATOR
    of [question, answer] columns.
    """
    formatting_func: str | None = None
    """formatting_func_path of MaxText ≥ 0.2.2: a function in the image that makes `messages` of these columns."""
    packing: bool | None = None
    """Whether several examples share one sequence; sft.yml's default is true."""
    completion_only: bool | None = None
    """sft_train_on_completion_only: loss on the answers alone; sft.yml's default is true."""
    shuffle: bool | None = None
    """enable_data_shuffling; MaxText's default is true."""
    shuffle_seed: int | None = Field(default=None, ge=0, lt=2**31)
    """data_shuffle_seed of the run's first start; MaxText's default is 0. Later starts: `restarts.data`."""
    num_epoch: int | None = Field(default=None, ge=1, le=10**6)
    """Passes over the data; if they end before `steps`, the run ends short."""
    rows: int | None = Field(default=None, ge=1, le=10**15)
    """Examples in the training split, if you know the number: lets `steps` be checked against it."""


class Eval(Section):
    """Evaluation while training."""

    interval: Steps
    """Training steps between evaluations; one more runs before step 1."""
    steps: int = Field(default=-1, ge=-1, le=MOST_STEPS)
    """Batches per evaluation; -1 takes the whole split."""
    per_device_batch_size: BatchSize | None = None
    """eval_per_device_batch_size; if unset, that of training."""


class Train(Section):
    """The training schedule."""

    steps: Steps
    """Training steps of the whole run, resumptions included."""
    per_device_batch_size: BatchSize
    """Sequences per device and step (a tpu7x chip is two devices); a fraction makes fewer sequences than devices."""
    max_target_length: int | None = Field(default=None, ge=1, le=MOST_TOKENS)
    """Tokens per sequence; MaxText's default is 2048."""
    learning_rate: float | None = Field(default=None, gt=0, le=1e6)
    """Peak learning rate; sft.yml's default is 2e-5."""
    gradient_accumulation_steps: int | None = Field(default=None, ge=1, le=MOST_SEQUENCES)
    """Batches whose gradients make one step; MaxText's default is 1."""
    weight_dtype: Literal["float32", "bfloat16"] | None = None
    """Type of the stored weights; MaxText's default is float32."""
    checkpoint_period: Steps | None = None
    """Steps between saved checkpoints; default max(50, steps/10). MaxText's own 10,000 loses everything on a
    preemption.
    """
    profiler: Literal["xplane"] | None = None
    """Trace a few steps into TensorBoard."""


class Lora(Section):
    """Train adapters only (Tunix/Qwix, MaxText ≥ 0.2.3)."""

    rank: int = Field(ge=1, le=2**20)
    """Rank of the adapters (lora.lora_rank)."""
    alpha: float = Field(gt=0, le=1e9)
    """The update is scaled by alpha / rank (lora.lora_alpha)."""
    module_path: str | None = None
    """Regular expression of the modules to adapt; if unset, MaxText's default for the model, if it has one."""
    weight_qtype: Literal["nf4", "int8", "int4"] | None = None
    """Quantise the frozen weights (QLoRA); if unset, they are not quantised."""
    restore_path: StoragePath | None = None
    """Adapter to start from."""


class Parallelism(Section):
    """The mesh: how chips in a slice (ici) and slices (dcn) are split."""

    ici: dict[Axis, AxisSize] = Field(default_factory=dict)
    """Product must be the devices of one slice: its chips, and twice that on tpu7x. If unset, fsdp takes all."""
    dcn: dict[Axis, AxisSize] = Field(default_factory=dict)
    """Product must be num_slices. If unset, data takes all."""


class Image(Section):
    """The container image and what is in it."""

    name: Annotated[str, StringConstraints(pattern=forms.IMAGE_NAME)] | None = None
    """An image of this project, by its folder under images/ (`post_training`): the digest that `xsft image push` put
    into its lock for the place's registry. Instead of `ref`.
    """
    ref: ImageRef | None = None
    """Any image, e.g. `us-docker.pkg.dev/my-project/xsft/post-training@sha256:…`."""
    maxtext: str = "0.2.5"
    """MaxText release in the image; decides the layout and the accepted keys."""
    pull_secret: DnsLabel | None = None
    """Kubernetes Secret of type dockerconfigjson."""


class SecretKey(Section):
    """A key of a Kubernetes Secret; mounted as a file, never an environment value."""

    secret: DnsLabel
    """Name of the Secret, in the run's namespace."""
    key: Annotated[str, StringConstraints(pattern=forms.SECRET_KEY, max_length=253)] = "token"
    """Key in the Secret's data."""


class Secrets(Section):
    hf_token: SecretKey | None = None
    """Hugging Face token: `HF_TOKEN_PATH` in the pod names the mounted file."""


class Restarts(Section):
    """The action when a container ends with an error."""

    max: int = Field(default=0, ge=0, le=1000)
    """JobSet maxRestarts."""
    on_exit_codes: list[Annotated[int, Field(ge=1, le=255)]] = Field(default_factory=list)
    """Exit codes that restart, on top of 42 and 127–255."""
    data: Literal["reshuffle", "repeat"] | None = None
    """A run that resumes reads its data from the first row again: in another order (`reshuffle`, by increasing
    data_shuffle_seed), or the same rows in the same order (`repeat`). If unset: reshuffle if data is shuffled."""
    grace_period_s: int | None = Field(default=None, ge=0, le=86400)
    """Seconds between SIGTERM and SIGKILL; xpk's default is 30."""


class Pathways(Section):
    """Pathways' servers; for `mode: pathways`."""

    proxy_image: ImageRef | None = None
    """Proxy server image, pinned; if unset, the place's."""
    server_image: ImageRef | None = None
    """Resource manager and worker image, of the proxy's release; if unset, the place's."""
    scratch: GcsUri | None = None
    """Bucket for temporary files (--pathways-gcs-location); if unset, the place's."""
    server_args: list[str] = Field(default_factory=list)
    """Arguments of the resource manager, one flag each; xpk splits at spaces, so a value holds none."""
    proxy_args: list[str] = Field(default_factory=list)
    """Arguments of the proxy, besides the ones that `xla_flags` become."""
    worker_args: list[str] = Field(default_factory=list)
    """Arguments of every worker."""

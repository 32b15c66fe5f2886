"""The inputs of a server on a cluster, and their digest. Pure."""

from __future__ import annotations

import hashlib
import math
from typing import Literal

import msgspec
from msgspec import Struct

from xsft.catalog.machines import GIB, ServingShape

WeightsBy = Literal["copy", "fuse"]
Exposure = Literal["cluster", "vpc"]

BUCKET = "gs://"
CONTAINER = "vllm"
COPIER = "weights"
"""Names of the server's container and of the one that copies the weights before it."""
PORT = 8000
"""source: vllm@0.11.0 vllm/entrypoints/openai/cli_args.py --port"""


class TokenSecret(Struct, frozen=True, kw_only=True):
    """A key of a Kubernetes Secret with the token of the Hugging Face hub."""

    secret: str
    key: str


class ServingInputs(Struct, frozen=True, kw_only=True):
    """The values that decide how a model is served."""

    weights: str
    """Folder `gs://…` of the export, or `owner/name@commit` on the Hugging Face hub; without a commit its newest."""
    weights_bytes: int
    """Estimated bytes of the weights, in bfloat16."""
    weights_by: WeightsBy
    """How the pod reads a bucket: vLLM reads no gs:// by itself."""
    image: str
    """vLLM, with its digest."""
    copier: str | None
    """Image of the container that copies the weights; it has Python and google-cloud-storage."""
    shape: ServingShape
    served_model_name: str
    max_model_len: int
    """Maximum tokens of prompt and answer."""
    expose: Exposure
    service_account: str | None
    """Kubernetes service account of the pod; None: the namespace's default."""
    token: TokenSecret | None
    """None for weights in a bucket, which need none."""
    pull_secret: str | None

    @property
    def digest(self) -> str:
        """Return 64 hex digits over the inputs that decide the server."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()

    @property
    def is_in_bucket(self) -> bool:
        return self.weights.startswith(BUCKET)

    @property
    def is_copied(self) -> bool:
        """Return whether a container copies the weights before the server starts."""
        return self.is_in_bucket and self.weights_by == "copy"

    @property
    def repository(self) -> str:
        """Return `owner/name` of weights on the hub."""
        return self.weights.partition("@")[0]

    @property
    def commit(self) -> str:
        """Return the commit of weights on the hub; empty for the newest."""
        return "" if self.is_in_bucket else self.weights.partition("@")[2]

    @property
    def bucket(self) -> str:
        return self.weights.removeprefix(BUCKET).partition("/")[0]

    @property
    def folder(self) -> str:
        """Return the folder below the bucket."""
        return self.weights.removeprefix(BUCKET).partition("/")[2].strip("/")

    @property
    def copy_gib(self) -> int:
        """Return the GiB that a copy of the weights takes."""
        return math.ceil(self.weights_bytes * COPY_FACTOR / GIB) + 1

    @property
    def load_s(self) -> int:
        """Return the seconds that the server may take to start, once the weights are there."""
        rate = READ_RATE if self.is_copied else REMOTE_RATE
        return START_S[self.shape.kind] + math.ceil(self.weights_bytes / rate)

    @property
    def progress_s(self) -> int:
        """Return the seconds after which the Deployment reports that it makes no progress."""
        copy = math.ceil(self.weights_bytes / REMOTE_RATE) if self.is_copied else 0
        return NODE_S + copy + self.load_s


COPY_FACTOR = 1.1
"""Factor of the weights' bytes: the tokenizer, and arrays that a checkpoint keeps in a wider type."""
READ_RATE = 200_000_000
"""Bytes per second from the host's memory to the accelerators; measured servers read several times as fast."""
REMOTE_RATE = 50_000_000
"""Bytes per second from a bucket or the hub, a slow case."""
START_S = {"tpu": 1800, "gpu": 600}
"""Seconds to import, compile and capture, without the weights. A TPU compiles every shape at the first start: 7 to 10
minutes were reported for models of 4 to 26 billion parameters on one v6e chip."""
NODE_S = 1200
"""Seconds until a node exists and has the image: 10 to 30 GB of it."""

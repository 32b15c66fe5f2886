"""Programs that fail as a run does, with the real libraries; run in MaxText's or the compiler's environment.

usage: failing_programs.py NAME [PROCESS COUNT PORT]. tests/tools/failure_logs.py runs them and keeps what they print.
"""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

LOG = logging.getLogger("maxtext")
MODEL = "meta-llama/Llama-3.1-8B"
DATA = "HuggingFaceH4/ultrachat_200k"
SMALL = Path("/tmp/small-disk")
CHECKPOINT = Path("/tmp/checkpoint/0/items")


def tokenizer() -> None:
    _without_waiting()
    import transformers

    transformers.AutoTokenizer.from_pretrained(MODEL)


def dataset() -> None:
    _without_waiting()
    import datasets

    datasets.load_dataset(DATA, split="train_sft")


def survived_hub() -> None:
    try:
        tokenizer()
    except OSError:
        LOG.exception("no tokenizer from the hub; the local one is used")
    {"prompt": 1}["messages"]


def survived_module() -> None:
    logging.basicConfig()
    try:
        importlib.import_module("nosuch")
    except ModuleNotFoundError as error:
        LOG.warning("optional package: %s", f"{type(error).__name__}: {error}")
    LOG.warning("Unable to initialize backend 'tpu': INTERNAL: Failed to get global TPU topology.")
    {"prompt": 1}["messages"]


def module() -> None:
    importlib.import_module("nosuch")


def bucket_read() -> None:
    _bucket().read("a").result()


def bucket_write() -> None:
    _bucket().write("a", b"x").result()


def bucket_open(driver: str = "zarr3", kind: str = "ocdbt") -> None:
    import tensorstore

    store = {"driver": "gcs", "bucket": "my-bucket", "path": "runs/a/checkpoints/100/items/"}
    spec = {"driver": driver, "kvstore": {"driver": "ocdbt", "base": store} if kind == "ocdbt" else store}
    tensorstore.open(spec, context=_few_retries(), open=True).result()


def bucket_open_zarr() -> None:
    bucket_open("zarr", "plain")


def checkpoint_missing() -> None:
    _restore(lambda: shutil.rmtree(CHECKPOINT))


def checkpoint_without_metadata() -> None:
    _restore((CHECKPOINT / "_METADATA").unlink)


def checkpoint_of_another_shape() -> None:
    _restore(a=(4, 4))


def checkpoint_of_another_model() -> None:
    _restore(c=(3,))


def checkpoint_damaged() -> None:
    _restore(lambda: _overwrite("d/*", lambda data: bytes(byte ^ 255 for byte in data)))


def checkpoint_cut() -> None:
    _restore(lambda: _overwrite("manifest.ocdbt", lambda data: data[:40]))


def checkpoint_incomplete() -> None:
    _restore(lambda: _overwrite("d/*", lambda _: None))


def peer_killed() -> None:
    if _initialize() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def coordinator_killed() -> None:
    if _initialize() == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def peer_raises() -> None:
    if _initialize() == 1:
        {"prompt": 1}["messages"]
    time.sleep(60)


def peer_never_starts() -> None:
    if int(sys.argv[2]) == 1:
        return
    _initialize()


def peer_does_not_come() -> None:
    if _initialize() == 1:
        time.sleep(60)
    from jax._src import distributed

    distributed.global_state.client.wait_at_barrier("save", 3000)


def told_to_stop() -> None:
    _initialize()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)
    os.kill(os.getpid(), signal.SIGKILL)


def hbm() -> None:
    import jax.numpy as jnp

    _compile(lambda x: jnp.sin(x) @ jnp.cos(x), (80_000, 80_000))


def vmem() -> None:
    _compile_kernel((8192, 8192))


def vmem_by_little() -> None:
    _compile_kernel((4096, 4096))


def smem() -> None:
    _compile_kernel((2048, 2048), space="smem")


def tpu_init() -> None:
    os.environ["JAX_PLATFORMS"] = "tpu"
    import jax

    jax.devices()


def host_memory() -> None:
    import jax.numpy as jnp

    jnp.zeros((1 << 44,)).block_until_ready()


def host_memory_of_numpy() -> None:
    import numpy as np

    np.ones((1 << 46,))


def disk_full() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as file:
        file.write("x" * 100_000)


def disk_full_of_tensorstore() -> None:
    if not SMALL.is_mount():
        SMALL.mkdir(exist_ok=True)
        again = f"mount -t tmpfs -o size=200k tmpfs {SMALL} && exec {sys.executable} {__file__} {sys.argv[1]}"
        os.execlp("unshare", "unshare", "--map-root-user", "--mount", "sh", "-c", again)
    import tensorstore

    tensorstore.KvStore.open(f"file://{SMALL}/").result().write("a", os.urandom(2_000_000)).result()


def parquet_damaged() -> None:
    folder = Path(mkdtemp())
    (folder / "train.parquet").write_bytes(b"PAR1" + b"x" * 100)
    import datasets

    datasets.load_dataset("parquet", data_files=str(folder / "train.parquet"), split="train")


def columns() -> None:
    from maxtext.input_pipeline import data_processing_utils as utils

    next(value for name, value in vars(utils).items() if "column" in name and callable(value))(["text"], False)


def chat_template() -> None:
    _tokenizer("{{ raise_exception('Conversation roles must alternate') }}").apply_chat_template(
        [{"role": "user", "content": "hi"}], tokenize=False
    )


def chat_template_missing() -> None:
    _tokenizer(None).apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)


def _without_waiting() -> None:
    time.sleep = lambda _: None


def _few_retries() -> Any:
    import tensorstore

    return tensorstore.Context({"gcs_request_retries": {"max_retries": 2, "initial_delay": "1ms", "max_delay": "1ms"}})


def _bucket() -> Any:
    import tensorstore

    path = {"driver": "gcs", "bucket": "my-bucket", "path": "runs/a/checkpoints/100/items/"}
    return tensorstore.KvStore.open(path, context=_few_retries()).result()


def _restore(spoil: Any = lambda: None, **shapes: tuple[int, ...]) -> None:
    import jax
    import jax.numpy as jnp
    import orbax.checkpoint as ocp

    shutil.rmtree(CHECKPOINT, ignore_errors=True)
    checkpointer = ocp.StandardCheckpointer()
    checkpointer.save(CHECKPOINT, {"a": jnp.ones((256, 256)), "b": jnp.ones(3)})
    checkpointer.wait_until_finished()
    spoil()
    shapes_wanted = {"a": (256, 256), "b": (3,), **shapes}
    checkpointer.restore(
        CHECKPOINT, {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes_wanted.items()}
    )


def _overwrite(pattern: str, change: Any) -> None:
    """Overwrite the files; None removes one."""
    for file in CHECKPOINT.rglob(pattern):
        data = change(file.read_bytes())
        file.unlink()
        if data is not None:
            file.write_bytes(data)


def _initialize() -> int:
    """Join the coordination service; return the number of this process."""
    import jax

    process, count, port = map(int, sys.argv[2:5])
    jax.distributed.initialize(
        f"127.0.0.1:{port}",
        count,
        process,
        initialization_timeout=20,
        heartbeat_timeout_seconds=10,
        shutdown_timeout_seconds=5,
    )
    time.sleep(2)
    return process


def _compile(function: Any, shape: tuple[int, ...], dtype: str = "float32") -> None:
    import jax
    from jax.experimental import topologies

    topology: Any = topologies.get_topology_desc(platform="tpu", topology_name="v6e:2x2")
    sharding = jax.sharding.SingleDeviceSharding(topology.devices[0])
    jax.jit(function).lower(jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)).compile()


def _compile_kernel(shape: tuple[int, ...], space: str = "") -> None:
    import jax
    from jax.experimental import pallas
    from jax.experimental.pallas import tpu

    def double(source: Any, target: Any) -> None:
        target[...] = source[...] * 2

    def first(source: Any, target: Any) -> None:
        target[...] = jax.numpy.full((8, 128), source[0, 0])

    if space == "smem":
        result = jax.ShapeDtypeStruct((8, 128), "int32")
        kernel = pallas.pallas_call(first, out_shape=result, in_specs=[pallas.BlockSpec(memory_space=tpu.SMEM)])
        return _compile(kernel, shape, "int32")
    return _compile(pallas.pallas_call(double, out_shape=jax.ShapeDtypeStruct(shape, "float32")), shape)


def _tokenizer(template: str | None) -> Any:
    import tokenizers
    import transformers

    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"hi": 0}, unk_token="hi"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, chat_template=template)


if __name__ == "__main__":
    globals()[sys.argv[1]]()

"""`xsft check` of workloads with a world: wall seconds of one workload, and of 50 that share their world.

The world is that of tests/failures/worlds.py: a bucket whose every answer takes 50 ms, a hub and a registry, all on
loopback. Its rows have 1 KB each, as short chats do. With the tests' rows of 90 bytes a sample holds ten times as many,
and 50 workloads take 2.1 times as long as one. Run it on a quiet machine; the world's servers share its cores.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from tests.bench.bench import XSFT, Budget
from tests.checks.factory import GOOD
from tests.failures.worlds import good_world

ANSWER_S = 0.05
"""Time of an answer of Cloud Storage."""
MODEL = "qwen3-0.6b"
CHAT = {"messages": [{"role": "user", "content": "q " * 250}, {"role": "assistant", "content": "a " * 250}]}
ROWS = f"{json.dumps(CHAT)}\n".encode() * 4000
ROUNDS = 3


def main() -> int:
    single, many = [], []
    with tempfile.TemporaryDirectory() as folder, good_world(Path(folder), (MODEL,)) as world:
        world.bucket.delay_s = ANSWER_S
        world.bucket.objects.update({f"rows/{n}.jsonl": ROWS for n in range(64)})
        tree = {key: value for key, value in GOOD.items() if key not in ("place", "image")}
        model = {"name": MODEL, "tokenizer": "Qwen/Qwen3-0.6B", "checkpoint": f"gs://my-bucket/{MODEL}/0/items"}
        rows = {**tree["data"], "hf_path": "json", "hf_train_files": "gs://my-bucket/rows/*.jsonl"}
        workload = {**tree, "model": model, "data": {**rows, "train_split": "train"}}
        files = [world.write(Path(folder), f"run-{n}", workload) for n in range(50)]
        for _ in range(ROUNDS):
            single.append(wall_s(*files[:1]))
            many.append(wall_s(*files))
    ratio = statistics.median(b / a for a, b in zip(single, many, strict=True))
    budgets = (
        Budget(what="check of one workload with its world", measured=statistics.median(single), limit=3, unit="wall-s"),
        Budget(what="check of 50 workloads of one world / of one", measured=ratio, limit=2, unit="x"),
    )
    print("\n".join(budget.line() for budget in budgets))
    return 0 if all(budget.kept for budget in budgets) else 1


def wall_s(*files: str) -> float:
    began = time.monotonic()
    done = subprocess.run((str(XSFT), "check", *files), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"check ended with {done.returncode}:\n{done.stdout}{done.stderr}"[-2000:])
    return time.monotonic() - began


if __name__ == "__main__":
    raise SystemExit(main())

"""The whole chain on this machine, with a tiny Hugging Face model that is written here: `make pipeline`.

Convert, train, evaluate, export with its logits compared by an engine of another make, and one answer of the served
export to OpenAI's client. Nothing is read from the network.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import yaml

from tests.hfmodels import SIZES, write_model
from xsft.catalog.data import located

ROWS = 6
"""Rows of the data, which the model learns by heart."""
NAME = "pipeline"
SERVED = {"rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 2048}
"""What an engine needs of config.json and MaxText does not."""


@dataclass(frozen=True)
class Chain:
    folder: Path

    def write(self) -> None:
        """Write the model, the data and the workload; what exists stays."""
        if (self.folder / "w.yaml").exists():
            return
        write_model(self.folder / "model", config=SERVED)
        rows = Path(located("xsft://tiny/chat.jsonl")).read_text(encoding="utf-8").splitlines(keepends=True)
        (self.folder / "rows.jsonl").write_text("".join(rows[:ROWS]), encoding="utf-8")
        (self.folder / "w.yaml").write_text(yaml.safe_dump(self._workload()), encoding="utf-8")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """xsft, in this folder, without a network."""
        env = {**os.environ, "XSFT_STATE_DIR": str(self.folder / "state"), "HF_HUB_OFFLINE": "1"}
        argv = (sys.executable, "-m", "xsft", *arguments)
        return subprocess.Popen(argv, cwd=self.folder, env=env, stdout=subprocess.PIPE, text=True)

    def run(self) -> list[dict[str, Any]]:
        """`xsft run`, to its end: its stages. Raises AssertionError if it fails."""
        with self.start("run", "w.yaml", "--json") as process:
            output, _ = process.communicate()
        assert process.returncode == 0, output
        stages: list[dict[str, Any]] = json.loads(output)["stages"]
        return stages

    def kill_when(self, pattern: str, *, within_s: float = 300) -> None:
        """`xsft run`, killed by SIGKILL as soon as a path matches that did not before."""
        before = set(self.folder.glob(pattern))
        with self.start("run", "w.yaml") as process:
            end = time.monotonic() + within_s
            while not set(self.folder.glob(pattern)) - before:
                assert process.poll() is None, f"it ended before {pattern}"
                assert time.monotonic() < end, pattern
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)

    @contextmanager
    def served(self, folder: str) -> Iterator[Mapping[str, str]]:
        """The document of `xsft serve` once it answers; Ctrl-C ends it."""
        with self.start("serve", folder, "--json") as process:
            assert process.stdout is not None
            try:
                yield json.loads(process.stdout.readline())
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(timeout=60)

    def answer(self, folder: str, question: str) -> str:
        """Return the served export's answer to OpenAI's client, greedily."""
        with self.served(folder) as server:
            client = openai.OpenAI(base_url=server["url"], api_key="none", max_retries=0)
            messages: Any = [{"role": "user", "content": question}]
            completion = client.chat.completions.create(
                model=server["model"], messages=messages, temperature=0, max_tokens=16
            )
        return completion.choices[0].message.content or ""

    def evaluation(self, stages: list[dict[str, Any]]) -> dict[str, Any]:
        """The file of the evaluate stage."""
        path = next(stage["result"] for stage in stages if stage["name"] == "evaluate")
        found: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        return found

    def _workload(self) -> dict[str, Any]:
        rows = str(self.folder / "rows.jsonl")
        model = str(self.folder / "model")
        return {
            "name": NAME,
            "target": "local",
            "model": {"name": "qwen3-0.6b", "tokenizer": model, "hf": {"repo": model}},
            "data": {
                "hf_path": "json",
                "hf_train_files": rows,
                "hf_eval_files": rows,
                "columns": ["messages"],
                "num_epoch": 100,
                "packing": False,
            },
            "train": {
                "steps": 80,
                "per_device_batch_size": ROWS,
                "max_target_length": 64,
                "learning_rate": 0.02,
                "checkpoint_period": 80,
            },
            "output": str(self.folder / "out"),
            "overrides": {"maxtext": {**SIZES, "dtype": "float32", "eval_interval": -1}},
            "stages": {
                "evaluate": {"max_new_tokens": 16},
                "export": {"verify": "logits"},
                "serve": {},
            },
        }


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores Ctrl-C
    chain = Chain(Path(arguments[0] if arguments else "xsft-runs/pipeline").absolute())
    chain.write()
    stages = one_pass(chain, "the whole chain")
    one_pass(chain, "again: nothing is done twice")
    report = chain.evaluation(stages)
    question = report["prompts"][0][-1]["content"]
    exported = next(stage["result"] for stage in stages if stage["name"] == "export")
    print(f"question  {question}")
    print(f"MaxText   {report['tuned']['answers'][0]['text']}")
    print(f"served    {chain.answer(exported, question)}")
    return 0


def one_pass(chain: Chain, title: str) -> list[dict[str, Any]]:
    print(f"== xsft run {chain.folder / 'w.yaml'}: {title}", flush=True)
    began = time.monotonic()
    stages = chain.run()
    for stage in stages:
        print(f"{stage['name']:<9}{stage['action']:<9}{stage['why']}", flush=True)
    print(f"{time.monotonic() - began:.0f} s", flush=True)
    return stages


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

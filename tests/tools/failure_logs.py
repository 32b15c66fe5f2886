"""Makes tests/failures/logs again: what the pinned libraries print when they fail. `make maxtext-release` runs it.

usage: python -m tests.tools.failure_logs [NAME …]. Each program of failing_programs.py runs in MaxText's environment,
or in the compiler's, against a server on loopback. A log lies in the folder of the cause that `why` must name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from xsft.environments import environments

LOGS = Path(__file__).parents[1] / "failures" / "logs"
PROGRAMS = Path(__file__).with_name("failing_programs.py")
TIMEOUT_S = 240
SLOW_S = 3
MAX_LINE = 1500
"""Characters of a line that are kept: a compiler's message repeats itself in bytes."""


@dataclass(frozen=True, kw_only=True)
class Case:
    cause: str
    """The id of a rule; of several processes, of the first one."""
    program: str
    answer: str = ""
    """A status, or `status:X-Error-Code`; cut, drop, slow; empty: no server listens."""
    processes: int = 1
    others: str = ""
    """The cause of the second process; empty: its log is not kept."""
    environment: str = "maxtext"

    @property
    def name(self) -> str:
        return f"{self.program}{f'_{self.answer}' if self.answer else ''}".replace(":", "_").replace("_", "-").lower()


MESSAGES = {
    "401": "Invalid Credentials",
    "403": "a@p.iam.gserviceaccount.com does not have storage.objects.get access to the Google Cloud Storage object.",
    "404": "The specified bucket does not exist.",
    "429": "The rate of change requests to the object exceeds the rate limit.",
    "503": "Backend Error",
}
"""As Cloud Storage's JSON API answers. source: cloud.google.com/storage/docs/json_api/v1/status-codes."""
HUB = {
    "hub-denied": ("tokenizer 401", "tokenizer 401:GatedRepo", "tokenizer 403", "dataset 401", "dataset 401:GatedRepo"),
    "hub-not-found": ("tokenizer 404:RepoNotFound", "dataset 404:RepoNotFound"),
    "hub-busy": ("tokenizer 429", "tokenizer 503", "dataset 429", "dataset 503"),
    "hub-unreachable": ("tokenizer", "tokenizer slow", "tokenizer cut", "dataset", "dataset 403", "dataset drop"),
    "exception": ("tokenizer drop", "survived_hub 429", "survived_module"),
}
BUCKET = {
    "bucket-denied": ("bucket_read 401", "bucket_write 403", "bucket_open 403", "bucket_open_zarr 401"),
    "bucket-busy": (
        "bucket_read 503",
        "bucket_write 429",
        "bucket_write 507",
        "bucket_open 429",
        "bucket_open_zarr 503",
    ),
    "bucket-unreachable": ("bucket_read", "bucket_open drop", "bucket_open_zarr cut"),
    "bucket-missing": ("bucket_write 404",),
}
ALONE = {
    "checkpoint-missing": ("checkpoint_missing", "checkpoint_without_metadata"),
    "checkpoint-shape": ("checkpoint_of_another_shape", "checkpoint_of_another_model"),
    "checkpoint-damaged": ("checkpoint_damaged", "checkpoint_cut", "checkpoint_incomplete"),
    "host-memory": ("host_memory", "host_memory_of_numpy"),
    "disk-full": ("disk_full", "disk_full_of_tensorstore"),
    "chat-template": ("chat_template", "chat_template_missing"),
    "data-columns": ("columns",),
    "module-missing": ("module",),
    "exception": ("parquet_damaged",),
}
COMPILER = {"hbm": ("hbm",), "kernel-memory": ("vmem", "vmem_by_little", "smem"), "tpu-init": ("tpu_init",)}
CASES = (
    *(
        Case(cause=cause, program=words.split()[0], answer=words.partition(" ")[2])
        for table in (HUB, BUCKET, ALONE)
        for cause, programs in table.items()
        for words in programs
    ),
    *(
        Case(cause=cause, program=program, environment="compiler")
        for cause, programs in COMPILER.items()
        for program in programs
    ),
    Case(cause="peer-lost", program="peer_killed", processes=2),
    Case(cause="told-to-stop", program="told_to_stop", processes=2),
    Case(cause="peer-lost", program="peer_raises", processes=2, others="exception"),
    Case(cause="peer-late", program="peer_never_starts", processes=2),
    Case(cause="peer-late", program="peer_does_not_come", processes=2, others="peer-lost"),
)


def main(names: Sequence[str]) -> int:
    cases = [case for case in CASES if not names or case.name in names]
    if not names:
        shutil.rmtree(LOGS, ignore_errors=True)
    for case in cases:
        with TemporaryDirectory() as folder, _serving(case.answer) as port:
            printed = _run(case, folder=Path(folder), port=port)
        for cause, text in zip((case.cause, case.others), printed, strict=False):
            if cause:
                file = LOGS / cause / f"{case.name}.log"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
                print(f"{file.relative_to(LOGS)}: {len(text.splitlines())} lines", flush=True)
    return 0


def _run(case: Case, *, folder: Path, port: int) -> list[str]:
    """Return what each process printed."""
    built = environments.find_environment(case.environment)
    if built is None:
        raise SystemExit(f"no environment {case.environment}: make environments")
    url = f"http://127.0.0.1:{port}"
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "HF_ENDPOINT": url,
        "HF_HUB_DOWNLOAD_TIMEOUT": "1",
        "HF_HUB_ETAG_TIMEOUT": "1",
        "TENSORSTORE_GCS_HTTP_URL": url,
        "GOOGLE_AUTH_TOKEN_FOR_TESTING": "none",
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_ACCELERATOR_TYPE": "v6e-4",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_WORKER_ID": "0",
    }
    files = [folder / f"{number}.log" for number in range(case.processes)]
    coordinator = _free_port()
    started = []
    for number, file in enumerate(files):
        with file.open("wb") as log:
            numbers = map(str, (number, case.processes, coordinator))
            argv = [str(built.python), str(PROGRAMS), case.program, *numbers]
            started.append(subprocess.Popen(argv, env=env, cwd=folder, stdout=log, stderr=subprocess.STDOUT))
    for process in started:
        process.wait(TIMEOUT_S)
    public = "https://storage.googleapis.com" if case.program.startswith("bucket") else "https://huggingface.co"
    places = {
        url: public,
        str(built.folder / "lib" / "python3.12" / "site-packages"): "/usr/lib/python3.12/site-packages",
        str(PROGRAMS): "/deps/train.py",
        str(folder): "/tmp/run",
    }
    return [_kept(file.read_text(encoding="utf-8", errors="replace"), places) for file in files]


def _kept(text: str, places: dict[str, str]) -> str:
    """Return the text without what differs between machines."""
    for place, public in places.items():
        text = text.replace(place, public)
    text = re.sub(r'(File ")/\S+/lib/python3', r"\1/usr/lib/python3", text)
    text = re.sub(r"(127\.0\.0\.1|localhost|\[::\])(:| port )\d+", r"\1\g<2>8476", text)
    return "".join(f"{line[:MAX_LINE]}\n" for line in text.splitlines())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _serving(answer: str) -> Iterator[int]:
    """Serve this one answer; yield the port. Without an answer nothing listens there."""
    if not answer:
        yield _free_port()
        return
    handler = type("Answer", (_Handler,), {"answer": answer})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answer = ""

    def respond(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        status, _, code = self.answer.partition(":")
        if status == "slow":
            time.sleep(SLOW_S)
        if status in ("cut", "drop"):
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nabc" if status == "cut" else b"")
            self.close_connection = True
            return
        body = json.dumps({"error": {"code": status, "message": MESSAGES.get(status, "")}}).encode()
        self.send_response(int(status) if status.isdigit() else 200)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    do_GET = do_PUT = do_POST = do_HEAD = respond  # noqa: N815

    def log_message(self, format: str, *_: object) -> None:
        """Print nothing."""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

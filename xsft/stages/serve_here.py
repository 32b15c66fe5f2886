"""Serve a model on this machine, a folder or the export of a run: the engine's OpenAI-compatible server on the loopback
address, from start to end.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from requests import RequestException

from xsft.base.errors import RunFailed
from xsft.base.lenient import ShowLine
from xsft.base.reporting import Reporter
from xsft.base.stage import StageEnd, StageFound, StageName, StagePlan
from xsft.environments import environments
from xsft.environments.installed import BuiltEnvironment
from xsft.machine import clock, watched_process
from xsft.machine.http_session import LOOPBACK, Session, free_port
from xsft.machine.paths import scratch_folder
from xsft.machine.process import own_environment
from xsft.machine.signals import as_ctrl_c
from xsft.planning import api
from xsft.records.record_files import record_store
from xsft.stages.export import ExportRoute, export_route, export_work
from xsft.stages.exported import training_of
from xsft.stages.once import do_once, end_of_stage
from xsft.stages.verify import ServedModel, served_model
from xsft.weights.exporter import ExportRequest

POLL_S = 0.2
ANSWER_S = 10.0
NAMED = "default_model"
"""The `model` of a request that means the served one; with another name the server would load that model. source:
mlx-lm@0.32.2 server.py ModelProvider.load
"""
LAST_LINES = 12
GRACE_S = 3.0


class Server(Struct, frozen=True, kw_only=True):
    """The address of a server, and the model it serves."""

    model: ServedModel
    port: int

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/v1"

    @property
    def health(self) -> str:
        """source: mlx-lm@0.32.2 server.py handle_health_check"""
        return f"http://{LOOPBACK}:{self.port}/health"


def serve_here(named: str, *, port: int | None, listener: Reporter, ready: Callable[[Server], None]) -> None:
    """Serve the folder, or the run's export, until Ctrl-C. `ready`: called when the server answers.

    Raises UsageError for a port that is taken and a model that the engine cannot read, and as `training_of` and
    `exported_here` do; RunFailed if the export or the server fails.
    """
    free_port(port)  # before an export that takes minutes
    route = _export_to_serve(named)
    if route is not None:
        route.plan()  # what cannot be exported is refused before an environment is built
    with listener.working("setting up") as progress:
        engine = environments.ensure("engine", progress=progress)
    folder = Path(named)
    if route is not None:
        with listener.working("export") as say:
            work = export_work(route, say=say, logits=False, listener=listener)
            end = end_of_stage(do_once(work), work.fix)
        if end.interrupted:
            raise KeyboardInterrupt
        if end.result is None:
            message = f"{route.trained.run_name} could not be exported: {end.why}"
            raise RunFailed(message, fix=end.fix, id="export-failed")
        folder = Path(end.result)
    model = served_model(folder, engine=engine)
    server = Server(model=model, port=free_port(port))
    with as_ctrl_c(), scratch_folder("serve") as scratch:
        serve(server, engine=engine, scratch=scratch, ready=lambda: ready(server))


def _export_to_serve(named: str) -> ExportRoute | None:
    """Return the export of a run; None for a folder. A name without a file is a run's."""
    if "/" in named or Path(named).exists():
        return None
    return ExportRoute(trained=training_of(named, record_store()), asked=ExportRequest())


def serve(server: Server, *, engine: BuiltEnvironment, scratch: Path, ready: Callable[[], None]) -> None:
    """Run the server, and return when it is interrupted; `ready` is called once, when it answers. `scratch`: a private
    folder.

    Raises RunFailed, engine-failed, if it cannot load the model or ends by itself.
    """
    log = scratch / "server.log"
    address = ("--host", LOOPBACK, "--port", str(server.port))
    argv = (str(engine.script("mlx_lm.server")), "--model", str(server.model.folder), *address)
    (scratch / "hub").mkdir()
    # Neither the network nor the user's cached models: a request can name any repository of the hub.
    env = own_environment(HF_HOME=str(scratch), HF_HUB_CACHE=str(scratch / "hub"), HF_HUB_OFFLINE="1")
    with watched_process.run_process(argv, env=env, log=log, grace_s=GRACE_S) as process:
        while not _is_loaded(server):
            if process.poll() is not None or _has_failed(server):
                raise _server_failed(log)
            clock.pause(POLL_S)
        ready()
        try:
            process.wait()
        except KeyboardInterrupt:
            return  # the only way to end it
    raise _server_failed(log)


def _is_loaded(server: Server) -> bool:
    """Return whether the model is loaded, by requesting one token: /health answers before that."""
    question: dict[str, str | int] = {"model": NAMED, "prompt": "a", "max_tokens": 1}
    with suppress(RequestException):
        return Session().post(f"{server.url}/completions", json=question, timeout=ANSWER_S).ok
    return False


def _has_failed(server: Server) -> bool:
    """Return whether loading has failed. source: mlx-lm@0.32.2 server.py generation_available"""
    with suppress(RequestException):
        return not Session().get(server.health, timeout=ANSWER_S).ok
    return False


def _server_failed(log: Path) -> RunFailed:
    last = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
    return RunFailed(
        "\n".join(("the server failed; its last lines:", *last)),
        fix="Correct what they name. `xsft setup --verify engine` checks the engine itself.",
        id="engine-failed",
    )


class ServeHere(Struct, frozen=True, kw_only=True):
    """The command that serves the export: a server would end with this process, so it is not started."""

    workload: api.LoadedWorkload
    run_name: str
    name: StageName = "serve"

    def plan(self) -> StagePlan:
        how = "on this machine the server is started by hand, by the command that xsft run prints"
        return StagePlan(name="serve", run_name=self.run_name, digest=None, writes="http://127.0.0.1", notes=(how,))

    def find(self) -> StageFound:
        return StageFound(state="missing", why="on this machine it is started by hand", is_by_hand=True)

    def perform(self, progress: ShowLine) -> StageEnd:
        del progress
        command = shlex.join(("xsft", "serve", export_route(self.workload).plan().directory))
        return StageEnd(action="skipped", state="missing", why=f"start it by: {command}")

    def watch(self, timeout_s: float | None) -> None:
        """Return at once: nothing runs."""

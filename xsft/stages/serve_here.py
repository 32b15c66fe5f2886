"""Serve a model on this machine: a folder, or the export of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from xsft.base.errors import RunFailed
from xsft.base.reporting import Reporter
from xsft.environments import environments
from xsft.machine.scratch import scratch_folder
from xsft.machine.signals import as_ctrl_c
from xsft.machine.sockets import free_port
from xsft.records.record_files import record_store
from xsft.stages.engine_server import Server, serve
from xsft.stages.export import ExportRoute, export_work
from xsft.stages.exported import training_of
from xsft.stages.once import do_once, end_of_stage
from xsft.stages.served_model import served_model
from xsft.weights.exporter import ExportRequest


def serve_here(given: str, *, port: int | None, listener: Reporter, ready: Callable[[Server], None]) -> None:
    """Serve the folder, or the run's export, until Ctrl-C. `ready`: called when the server answers.

    Raises UsageError for a port that is taken and a model that the engine cannot read, and as `training_of` and
    `export_here` do; RunFailed if the export or the server fails.
    """
    free_port(port)  # before an export that takes minutes
    route = _export_to_serve(given)
    if route is not None:
        route.plan()  # what cannot be exported is refused before an environment is built
    with listener.working("setting up") as progress:
        engine = environments.ensure("engine", progress=progress)
    folder = Path(given)
    if route is not None:
        folder = _exported_folder(route, listener)
    model = served_model(folder, engine=engine)
    server = Server(model=model, port=free_port(port))
    with as_ctrl_c(), scratch_folder("serve") as scratch:
        serve(server, engine=engine, scratch=scratch, ready=lambda: ready(server))


def _export_to_serve(given: str) -> ExportRoute | None:
    """Return the export of a run; None for a folder. A name without a file is a run's."""
    if "/" in given or Path(given).exists():
        return None
    return ExportRoute(trained=training_of(given, record_store()), asked=ExportRequest())


def _exported_folder(route: ExportRoute, listener: Reporter) -> Path:
    """Return the folder of the run's export, which is made if it is missing. Raises as `serve_here` does."""
    with listener.working("export") as say:
        work = export_work(route, say=say, logits=False, listener=listener)
        end = end_of_stage(do_once(work), work.fix)
    if end.interrupted:
        raise KeyboardInterrupt
    if end.result is None:
        raise RunFailed(f"{route.trained.run_name} could not be exported: {end.why}", fix=end.fix, id="export-failed")
    return Path(end.result)

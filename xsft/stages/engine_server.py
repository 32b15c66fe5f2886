"""The engine's OpenAI-compatible server on the loopback address, from start to end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from requests import RequestException

from xsft.base.errors import RunFailed
from xsft.environments.installed import BuiltEnvironment
from xsft.machine import clock, watched_process
from xsft.machine.http_session import Session
from xsft.machine.process import own_environment
from xsft.machine.sockets import LOOPBACK
from xsft.stages.served_model import ServedModel

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


def serve(server: Server, *, engine: BuiltEnvironment, scratch: Path, ready: Callable[[], None]) -> None:
    """Run the server, and return when it is interrupted; `ready` is called once, when it answers. `scratch`: a private
    folder.

    Raises RunFailed, engine-failed, if it cannot load the model or ends by itself.
    """
    log = scratch / "server.log"
    argv, env = _server_argv(server, engine), _server_environment(scratch)
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


def _server_argv(server: Server, engine: BuiltEnvironment) -> tuple[str, ...]:
    folder, port = str(server.model.folder), str(server.port)
    return (str(engine.script("mlx_lm.server")), "--model", folder, "--host", LOOPBACK, "--port", port)


def _server_environment(scratch: Path) -> dict[str, str]:
    """Return an environment without a network or the user's cached models: a request can name any hub repository."""
    (scratch / "hub").mkdir()
    return own_environment(HF_HOME=str(scratch), HF_HUB_CACHE=str(scratch / "hub"), HF_HUB_OFFLINE="1")

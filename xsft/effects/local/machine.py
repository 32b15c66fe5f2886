"""What the trainer is started with on this machine: interpreter, command, environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xsft.effects.local.container import CONTAINED, Container, container_environment
from xsft.effects.local.namespace import Containment, detect
from xsft.effects.machine import clock
from xsft.steps import Plan
from xsft.trainers.local import reads_only_files
from xsft.trainers.maxtext import trainer_argv

PASSED_ON = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LD_LIBRARY_PATH")
PASSED_ON_ONLINE = ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy", "SSL_CERT_FILE",
                    "REQUESTS_CA_BUNDLE", "HF_ENDPOINT")  # fmt: skip
"""Of the user's environment, the trainer gets these. Never HF_TOKEN: MaxText writes it into TensorBoard's files."""


class Machine(Struct, frozen=True, kw_only=True):
    """What a run needs of this machine; tests hand in their own."""

    python: Path
    """Interpreter of the MaxText environment; in an image the plan's own `python3`."""
    env: Mapping[str, str]
    """The user's environment."""
    cache: Path
    """For the hub's downloads and converted data; may be deleted at any time."""
    container: Container | None = None
    """The image that the run goes into; None: the environment of `python`."""
    contain: Callable[[], Containment] = detect
    now: Callable[[], str] = clock.now


def in_image(container: Container, *, env: Mapping[str, str], cache: Path) -> Machine:
    """The run goes into the workload's image, and needs no environment of MaxText here."""
    return Machine(python=Path("python3"), env=env, cache=cache, container=container, contain=lambda: CONTAINED)


def trainer_command(plan: Plan, *, python: Path, attempt: int) -> tuple[str, ...]:
    """The plan's argv with this machine's interpreter in place of `python3`: what ran is what was shown, but for the
    seed of a later attempt.
    """
    return (str(python), *trainer_argv(replace(plan.run, attempt=attempt))[1:])


def trainer_environment(plan: Plan, *, machine: Machine, scratch: Path) -> dict[str, str]:
    """Everything the trainer sees: a little of the user's, private folders, and the plan's on top."""
    online = _online(plan, machine)
    if machine.container:
        return container_environment(plan, cache=machine.cache, scratch=scratch, more=online)
    return {
        **{name: machine.env[name] for name in PASSED_ON if name in machine.env},
        **online,
        "HF_HOME": str(machine.cache / "huggingface"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(scratch),
        **plan.trainer_env,
    }


def _online(plan: Plan, machine: Machine) -> dict[str, str]:
    """What reaching the network takes; nothing for a run that needs none."""
    if reads_only_files(plan.run):
        return {}
    return {**{name: machine.env[name] for name in PASSED_ON_ONLINE if name in machine.env}, **hub_token(machine.env)}


def hub_token(env: Mapping[str, str]) -> dict[str, str]:
    """The file a user's `hf auth login` wrote, named, not read. source: huggingface_hub constants.py HF_TOKEN_PATH."""
    home = Path(env.get("HF_HOME") or Path(env.get("HOME", "/")) / ".cache" / "huggingface")
    path = Path(env.get("HF_TOKEN_PATH") or home / "token")
    return {"HF_TOKEN_PATH": str(path)} if path.is_file() else {}

"""What the trainer is started with on this machine: interpreter, command, environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from xsft.effects import clock
from xsft.effects.namespace import Containment, detect
from xsft.steps import Plan
from xsft.trainers.local import reads_only_files

PASSED_ON = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LD_LIBRARY_PATH")
PASSED_ON_ONLINE = ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy", "SSL_CERT_FILE",
                    "REQUESTS_CA_BUNDLE", "HF_ENDPOINT")  # fmt: skip
"""Of the user's environment, the trainer gets these. Never HF_TOKEN: MaxText writes it into TensorBoard's files."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a run needs of this machine; tests hand in their own."""

    python: Path
    """Interpreter of the MaxText environment."""
    env: Mapping[str, str]
    """The user's environment."""
    cache: Path
    """For the hub's downloads and converted data; may be deleted at any time."""
    contain: Callable[[], Containment] = detect
    now: Callable[[], str] = clock.now


def trainer_command(plan: Plan, *, python: Path) -> tuple[str, ...]:
    """The plan's argv with this machine's interpreter in place of `python3`: what ran is what was shown."""
    return (str(python), *plan.trainer_argv[1:])


def trainer_environment(plan: Plan, *, machine: Machine, scratch: Path) -> dict[str, str]:
    """Everything the trainer sees: a little of the user's, private folders, and the plan's on top."""
    online = not reads_only_files(plan.run)
    names = (*PASSED_ON, *(PASSED_ON_ONLINE if online else ()))
    return {
        **{name: machine.env[name] for name in names if name in machine.env},
        **(_token(machine.env) if online else {}),
        "HF_HOME": str(machine.cache / "huggingface"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(scratch),
        **plan.trainer_env,
    }


def _token(env: Mapping[str, str]) -> dict[str, str]:
    """The file a user's `hf auth login` wrote, named, not read. source: huggingface_hub constants.py HF_TOKEN_PATH."""
    home = Path(env.get("HF_HOME") or Path(env.get("HOME", "/")) / ".cache" / "huggingface")
    path = Path(env.get("HF_TOKEN_PATH") or home / "token")
    return {"HF_TOKEN_PATH": str(path)} if path.is_file() else {}

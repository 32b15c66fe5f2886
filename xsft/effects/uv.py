"""uv, which comes with xsft as a package, and the environment it runs in."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from xsft.errors import EnvironmentMissing

FROM_PIP = (
    ("PIP_INDEX_URL", "UV_DEFAULT_INDEX"),
    ("PIP_EXTRA_INDEX_URL", "UV_INDEX"),
    ("PIP_CERT", "SSL_CERT_FILE"),
)
"""A mirror or certificate that pip was told by variable; uv reads only its own. source: uv docs, pip/compatibility."""

NOT_OURS = (
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYTHONHOME",
    "PYTHONPATH",
    "UV_PROJECT_ENVIRONMENT",
    "UV_PYTHON",
    "UV_TARGET",
)
"""Variables that would turn uv or Python to another environment than the one named by `--python`."""


def find_uv() -> str:
    """Path of the uv executable. Raises EnvironmentMissing."""
    try:
        from uv import find_uv_bin

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if found is None:
        raise EnvironmentMissing(
            "uv is missing", fix="install xsft again with pip or uv: it depends on uv; or `pip install uv`"
        )
    return found


def uv_environment(env: Mapping[str, str]) -> dict[str, str]:
    """`env` for uv: pip's mirror and certificate handed on, other virtual environments forgotten."""
    handed_on = {ours: env[pips] for pips, ours in FROM_PIP if env.get(pips) and not env.get(ours)}
    kept = {name: value for name, value in env.items() if name not in NOT_OURS}
    return {**kept, **handed_on, "NO_COLOR": "1"}

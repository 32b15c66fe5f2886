"""uv, which comes with xsft as a package, and the environment it runs in."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

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


SYSTEM_BUNDLES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),  # Debian, Ubuntu, Arch, Alpine
    Path("/etc/pki/tls/certs/ca-bundle.crt"),  # Fedora, RHEL
    Path("/etc/ssl/cert.pem"),  # macOS
)
"""Where the system keeps the authorities it trusts; a company's proxy is among them, and not among uv's own."""


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


def uv_environment(env: Mapping[str, str], *, bundles: Sequence[Path] = SYSTEM_BUNDLES) -> dict[str, str]:
    """`env` for uv: pip's mirror and certificate handed on, the system's authorities trusted, other virtual
    environments forgotten. What the user told uv itself stays."""
    handed_on = {ours: env[pips] for pips, ours in FROM_PIP if env.get(pips) and not env.get(ours)}
    kept = {name: value for name, value in env.items() if name not in NOT_OURS}
    trust = {"UV_SYSTEM_CERTS": "1"} if any(bundle.is_file() for bundle in bundles) else {}
    return {**trust, **kept, **handed_on, "NO_COLOR": "1"}

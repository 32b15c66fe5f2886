"""uv, a package that xsft depends on, and the environment variables it runs with."""

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
"""A mirror or certificate that is set for pip by a variable; uv reads only its own. source: uv docs,
pip/compatibility.
"""

NOT_OURS = (
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYTHONHOME",
    "PYTHONPATH",
    "UV_PROJECT_ENVIRONMENT",
    "UV_PYTHON",
    "UV_TARGET",
)
"""Variables that would make uv or Python use another environment than the one named by `--python`."""


SYSTEM_BUNDLES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),  # Debian, Ubuntu, Arch, Alpine
    Path("/etc/pki/tls/certs/ca-bundle.crt"),  # Fedora, RHEL
    Path("/etc/ssl/cert.pem"),  # macOS
)
"""Where the system keeps its trusted certificate authorities. They include a company proxy's authority, uv's own do
not.
"""


PATIENCE = {"UV_HTTP_CONNECT_TIMEOUT": "4", "UV_HTTP_TIMEOUT": "8", "UV_HTTP_RETRIES": "1"}
"""An index that cannot be reached, or accepts and stays silent, is reported within 20 s; the limit is between two parts
of an answer, which may be slow. source: uv docs, reference/environment.
"""


def find_uv() -> str:
    """Return the path of the uv executable. Raises EnvironmentMissing."""
    try:
        from uv import find_uv_bin

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if found is None:
        raise EnvironmentMissing(
            "uv is missing", fix="reinstall xsft with pip or uv: it depends on uv; or `pip install uv`"
        )
    return found


def uv_environment(env: Mapping[str, str], *, bundles: Sequence[Path] = SYSTEM_BUNDLES) -> dict[str, str]:
    """Return `env` for uv: with pip's mirror and certificate, the system's certificate authorities, and without other
    virtual environments. The user's own uv settings are kept.
    """
    handed_on = {ours: env[pips] for pips, ours in FROM_PIP if env.get(pips) and not env.get(ours)}
    kept = {name: value for name, value in env.items() if name not in NOT_OURS}
    trust = {"UV_SYSTEM_CERTS": "1"} if any(bundle.is_file() for bundle in bundles) else {}
    return {**PATIENCE, **trust, **kept, **handed_on, "NO_COLOR": "1"}

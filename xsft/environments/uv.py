"""The environment variables of uv. Standard library and syntax of Python 3.9 only: bootstrap.py uses them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

FROM_PIP = (
    ("PIP_INDEX_URL", "UV_DEFAULT_INDEX"),
    ("PIP_EXTRA_INDEX_URL", "UV_INDEX"),
    ("PIP_CERT", "SSL_CERT_FILE"),
)
"""Variables of pip that uv does not read, and uv's own names. source: uv docs, pip/compatibility."""

NOT_OURS = frozenset(("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH", "UV_PYTHON"))
"""Variables that would make uv or Python use another environment than the one named by `--python`."""

SYSTEM_BUNDLES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),  # Debian, Ubuntu, Arch, Alpine
    Path("/etc/pki/tls/certs/ca-bundle.crt"),  # Fedora, RHEL
    Path("/etc/ssl/cert.pem"),  # macOS
)
"""The system's certificate authorities. They include a company proxy's authority; uv's own do not."""

PATIENCE = {"UV_HTTP_CONNECT_TIMEOUT": "4", "UV_HTTP_TIMEOUT": "8", "UV_HTTP_RETRIES": "1"}
"""Seconds. An index that cannot be reached, or accepts and stays silent, is reported within 20 s; the limit is between
two parts of an answer, which may be slow. source: uv docs, reference/environment.
"""


def uv_environment(env: Mapping[str, str], *, bundles: Sequence[Path] = SYSTEM_BUNDLES) -> dict[str, str]:
    """Return `env` for uv: with pip's mirror and certificate, the system's certificate authorities, a PATH on which uv
    finds every Python, and without other virtual environments. The user's own settings of uv are kept.
    """
    variables = {**PATIENCE, **env, "PATH": python_path(env), "NO_COLOR": "1"}
    if any(bundle.is_file() for bundle in bundles):
        variables.setdefault("UV_SYSTEM_CERTS", "1")
    for pip_name, uv_name in FROM_PIP:
        if env.get(pip_name):
            variables.setdefault(uv_name, env[pip_name])
    return {name: text for name, text in variables.items() if name not in NOT_OURS}


def python_path(env: Mapping[str, str]) -> str:
    """Return PATH, then the folders of the running Python and of pyenv's Pythons. uv looks on PATH only, where pyenv
    has shims, which fail for a version that is not active.
    """
    pyenv = Path(env.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    folders = [Path(sys.base_prefix) / "bin", *sorted(pyenv.glob("3.*/bin"), reverse=True)]
    return os.pathsep.join([env.get("PATH") or os.defpath, *map(str, folders)])

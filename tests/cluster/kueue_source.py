"""Kueue's source with one file changed: where its server of queue positions listens, and as whom it asks.

Kueue v0.16.2 (pkg/visibility/server.go) listens on port 8082, always, and takes the credentials that only a container
in a cluster has. Two clusters on one machine would collide, and each would need root. Nothing else is changed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

FILE = "pkg/visibility/server.go"
PORT = "KUEUE_VISIBILITY_PORT"
PATCH = (
    ('\t"net"\n\t"strings"\n', '\t"net"\n\t"os"\n\t"strconv"\n\t"strings"\n'),
    (
        "\to.SecureServing.BindPort = 8082\n",
        f"""\
\to.SecureServing.BindPort, _ = strconv.Atoi(os.Getenv("{PORT}"))
\to.SecureServing.BindAddress = net.ParseIP("127.0.0.1")
\to.CoreAPI.CoreAPIKubeconfigPath = os.Getenv("KUBECONFIG")
\to.Authentication.RemoteKubeConfigFile = os.Getenv("KUBECONFIG")
\to.Authorization.RemoteKubeConfigFile = os.Getenv("KUBECONFIG")
""",
    ),
)
UNUSED = shutil.ignore_patterns("test", "site", "keps", "charts", "kueueviz", "kueue-viz", "*_test.go")


def write_patched(source: Path, target: Path) -> None:
    """Copy the module's folder and change that file. Raises LookupError when the file is not the one we know."""
    shutil.copytree(source, target, ignore=UNUSED, copy_function=shutil.copyfile)
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
        folder.chmod(0o755)  # the module cache is read-only, and so would be its copy
    file = target / FILE
    file.write_text(patched(file.read_text(encoding="utf-8")), encoding="utf-8")


def patched(text: str) -> str:
    for old, new in PATCH:
        if text.count(old) != 1:
            raise LookupError(f"{FILE} of this Kueue does not hold {old!r} once: look at PATCH in {__file__}")
        text = text.replace(old, new)
    return text

"""Kueue's source with two files changed: where its server of queue positions listens, and where certificates are.

As it is, Kueue v0.16.2 serves queue positions on port 8082, always, with the credentials that only a container in a
cluster has (pkg/visibility/server.go); so two clusters on one machine would collide, and each would need root. And it
takes ready-made certificates only together with others in /etc (cmd/kueue/main.go); else it makes its own and writes
them into its CRDs, which takes from 10 to 40 s here. Nothing else is changed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

PORT = "KUEUE_VISIBILITY_PORT"
CERTIFICATES = "webhook-certs"
"""Folder with tls.crt and tls.key, where Kueue runs."""
PATCH = {
    "pkg/visibility/server.go": (
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
        ('certDir = "/visibility"', f'certDir = "{CERTIFICATES}"'),
    ),
    "cmd/kueue/main.go": (('metricsCertPath := "/etc/kueue/metrics/certs"', f'metricsCertPath := "{CERTIFICATES}"'),),
}
"""By file: what stands there once, and what takes its place."""
UNUSED = shutil.ignore_patterns("test", "site", "keps", "charts", "kueueviz", "kueue-viz", "*_test.go")


def write_patched(source: Path, target: Path) -> None:
    """Copy the module's folder and change those files. Raises LookupError when one is not the one we know."""
    shutil.copytree(source, target, ignore=UNUSED, copy_function=shutil.copyfile)
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
        folder.chmod(0o755)  # the module cache is read-only, and so would be its copy
    for name in PATCH:
        (target / name).write_text(patched(name, (source / name).read_text(encoding="utf-8")), encoding="utf-8")


def patched(name: str, text: str) -> str:
    for old, new in PATCH[name]:
        if text.count(old) != 1:
            raise LookupError(f"{name} of this Kueue does not hold {old!r} once: look at PATCH in {__file__}")
        text = text.replace(old, new)
    return text

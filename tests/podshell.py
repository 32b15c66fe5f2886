"""The script of a trainer's container, run by the real bash as a kubelet would start it. `python3` and `sleep` are
stubs: the first writes down what it got, the second hardly waits.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xsft.launcher.encoding import kubernetes_expand

Json = Mapping[str, Any]
FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


def stubs_in(folder: Path) -> Path:
    """A PATH on which python3 writes its argv and environment to $OUT, NUL between, and sleep does not wait."""
    # /proc has the bytes as the kernel handed them over: no runtime in between that could change them.
    wrote = '#!/bin/bash\ncat /proc/$$/cmdline > "$OUT.argv"; cat /proc/$$/environ > "$OUT.env"\n'
    executable(folder / "python3", wrote)
    executable(folder / "sleep", "#!/bin/sh\nexec /bin/sleep 0.02\n")
    return folder


def environment_of(container: Json, *, metadata: Json) -> dict[str, str]:
    """Return the environment as the kubelet makes it: in order, each value expanded with the ones before; a missing
    label or annotation is empty. source: Kubernetes docs, concepts/workloads/pods/downward-api.
    """
    environment: dict[str, str] = {}
    for entry in container.get("env") or ():
        path = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        if field := FIELD.fullmatch(path):
            environment[entry["name"]] = (metadata.get(field[1]) or {}).get(field[2], "")
        else:
            environment[entry["name"]] = kubernetes_expand(entry["value"], environment)
    return environment


def command_of(container: Json, *, metadata: Json) -> tuple[list[str], dict[str, str]]:
    """The container's command and environment, as the kubelet starts it."""
    environment = environment_of(container, metadata=metadata)
    return [kubernetes_expand(word, environment) for word in container["command"]], environment


def received(container: Json, *, metadata: Json, stubs: Path, out: Path) -> tuple[str, ...]:
    """Return the argv of the trainer's process, the interpreter first."""
    command, environment = command_of(container, metadata=metadata)
    ran = {**environment, "PATH": f"{stubs}:/usr/bin:/bin", "OUT": str(out)}
    done = subprocess.run(command, env=ran, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    _, program, *arguments = Path(f"{out}.argv").read_bytes().split(b"\0")[:-1]
    assert program == str(stubs / "python3").encode()
    return ("python3", *(argument.decode() for argument in arguments))


def executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)

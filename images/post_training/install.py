"""Install what the deps image holds, with uv, which takes a quarter of pip's time for two gigabytes of packages.

    install.py prepare UV_LOCK LOCK FOLDER   uv, one lock per layer, the list of packages (CycloneDX) …, into FOLDER
    install.py layer FOLDER NUMBER           that layer's packages
    install.py over FOLDER [REQUIREMENT…]    others in their place

Runs while the image is built, with its own Python. uv itself is fetched by pip, locked too, and does not stay. Where
packages come from is said in a pip.conf (PIP_CONFIG_FILE), because that is what people have; uv does not read it.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

LAYERS = (
    ("libtpu", "jaxlib"),
    (
        *("pyarrow", "scipy", "xprof", "tensorstore", "numpy", "pandas", "pillow", "sympy", "uvloop", "hf-xet"),
        *("array-record", "tokenizers", "tokamax", "sentencepiece"),
    ),
)
"""The large packages, by who changes together; all others are the last layer. A host pulls a layer again when one of
its rows changed, so a change costs the third that it is in: tests/images/test_layers.py has the sizes."""

MOUNTED = ("hosts", "resolv.conf")
"""Files of /etc that every container gets from outside, so that what an image has there is never seen."""

SETTLED_S = 315_619_200
"""1980-01-02T00:00:00Z: the time of all that is installed, so that the same packages are the same layer, bit by bit."""

SETTINGS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "timeout": "UV_HTTP_TIMEOUT",
    "retries": "UV_HTTP_RETRIES",
    "cert": "SSL_CERT_FILE",
}
"""pip's option to uv's environment variable. source: pip documentation, pip install; uv documentation, environment."""

ALL = ("--system", "--break-system-packages", "--compile-bytecode", "--no-deps")
"""Byte code is made here, once, not at every start on every host."""
LOCKED = ("--require-hashes", "--only-binary", ":all:")
"""Wheels only: a source archive would bring build requirements that no lock has. For a lock's rows, not for `over`."""
COMPILING = {"PYC_INVALIDATION_MODE": "UNCHECKED_HASH", "PYTHONHASHSEED": "0"}
"""By the source's hash, not its time, so that two builds are equal. Python never compares: whoever changes a source
later compiles it, too, as place.py does."""


def main(action: str, *arguments: str) -> None:
    {"prepare": prepare, "layer": layer, "over": over}[action](*arguments)


def prepare(uv_lock: str, lock: str, to: str) -> None:
    folder = Path(to)
    folder.mkdir(parents=True)
    quiet = ("--quiet", "--no-cache-dir", "--disable-pip-version-check", "--root-user-action=ignore")
    pip = (sys.executable, "-m", "pip", "install", *quiet, *LOCKED, "--no-deps", "--target", str(folder / "uv"))
    run(*pip, "--requirement", uv_lock, env=os.environ, otherwise=index_refusals)
    text = Path(lock).read_text(encoding="utf-8")
    for number, rows in enumerate(layers_of(text), start=1):
        (folder / f"{number}.txt").write_text(rows, encoding="utf-8")
    (folder / "etc").mkdir()
    for name in MOUNTED:
        (folder / "etc" / name).touch()
    (folder / "sbom.cdx.json").write_text(sbom(text), encoding="utf-8")


def layer(folder: str, number: str) -> None:
    lock = Path(folder, f"{number}.txt")
    if lock.read_text(encoding="utf-8"):
        install(folder, *LOCKED, "--requirement", str(lock))


def over(folder: str, *requirements: str) -> None:
    if others := tuple(filter(None, requirements)):
        install(folder, "--reinstall", *others)


def install(folder: str, *what: str) -> None:
    started = time.time() - 1
    env = {**os.environ, **COMPILING, **uv_settings(pip_settings(os.environ.get("PIP_CONFIG_FILE", "")))}
    run(str(Path(folder, "uv", "bin", "uv")), "pip", "install", "--python", sys.executable, *ALL, *what, env=env)
    settle({sysconfig.get_path("data"), sysconfig.get_path("purelib")}, since=started)


def layers_of(lock: str) -> list[str]:
    """The lock's rows, one text per layer; each row is in one of them."""
    texts = ["" for _ in range(len(LAYERS) + 1)]
    for row in rows_of(lock):
        at = next((at for at, names in enumerate(LAYERS) if named(row)[0] in names), len(LAYERS))
        texts[at] += row
    return texts


def rows_of(lock: str) -> list[str]:
    """`name==version` with its hashes; comments of the whole lock are in none."""
    return re.split(r"^(?=[A-Za-z0-9])", re.sub(r"^#.*\n", "", lock, flags=re.MULTILINE), flags=re.MULTILINE)[1:]


def named(row: str) -> tuple[str, str]:
    """Name, in the one form that PyPI compares by, and version."""
    name, _, version = row.split(maxsplit=1)[0].partition("==")
    return re.sub(r"[-_.]+", "-", name).lower(), version


def sbom(lock: str) -> str:
    """The lock as a list of components. source: CycloneDX 1.6, JSON; package-url, type pypi."""
    components = [
        {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"}
        for name, version in map(named, rows_of(lock))
    ]
    return json.dumps(
        {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components}, indent=1
    )


def settle(roots: Iterable[str], *, since: float) -> None:
    """Give everything that was written since one time."""
    for root in roots:
        for folder, _, names in os.walk(root):
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                if os.lstat(path).st_mtime >= since:
                    os.utime(path, (SETTLED_S, SETTLED_S), follow_symlinks=False)


def pip_settings(path: str) -> dict[str, str]:
    """Options of a pip.conf for `pip install`: [install] wins over [global]. No file, no options."""
    parser = configparser.RawConfigParser()
    parser.read(path or [], encoding="utf-8")
    options = (item for name in ("global", "install") if name in parser for item in parser[name].items())
    return {option.replace("_", "-"): " ".join(value.split()) for option, value in options}


def uv_settings(options: Mapping[str, str]) -> dict[str, str]:
    """With several indexes pip takes the best of all; the lock's hashes say which that is.

    Not with one: only uv's own strategy says that an index answered 401 or 403.
    """
    given = {variable: options[option] for option, variable in SETTINGS.items() if options.get(option)}
    several = {"UV_INDEX_STRATEGY": "unsafe-best-match"} if "UV_INDEX" in given else {}
    return {"UV_LINK_MODE": "copy", **several, **given}


def run(
    *argv: str, env: Mapping[str, str], otherwise: Callable[..., Iterable[str]] = lambda *_argv, **_env: ()
) -> None:
    """End with the status of a command that failed, after the lines of `otherwise`."""
    if status := subprocess.run(argv, env=env, check=False).returncode:
        print(*otherwise(*argv, env=env), sep="\n", flush=True)
        sys.exit(status)


def index_refusals(*argv: str, env: Mapping[str, str]) -> list[str]:
    """What an index answered to pip, which says so among hundreds of other lines only (one v undoes --quiet)."""
    done = subprocess.run((*argv, "-vvv"), env=env, capture_output=True, text=True, check=False)
    return [line.strip() for line in done.stdout.splitlines() if "Could not fetch URL" in line]


if __name__ == "__main__":
    main(*sys.argv[1:])

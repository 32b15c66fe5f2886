"""Install what the deps image holds, with uv, which takes a quarter of pip's time for two gigabytes of packages.

    install.py prepare UV_LOCK LOCK FOLDER   uv, one lock per layer, the list of packages (CycloneDX) …, into FOLDER
    install.py layer FOLDER NUMBER           that layer's packages
    install.py over FOLDER [REQUIREMENT…]    others in their place
    install.py record LOCK FILE              the lock's digest, and the installed files that a fork may replace

Runs while the image is built, with its own Python. uv itself is fetched by pip, locked too, and does not stay. Where
packages come from is said in a pip.conf (PIP_CONFIG_FILE), because that is what people have; uv does not read it.
"""

import configparser
import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import time
from importlib.util import find_spec
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
OVERLAYS = ("maxtext", "tunix")
"""Packages that a fork may replace."""
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
UV = ("pip", "install", "--system", "--break-system-packages", "--compile-bytecode", "--no-deps")
"""Byte code is made here, once, not at every start on every host: by the source's hash, not its time, so that two
builds are equal. Python never compares it, so whoever replaces a source later removes it."""
LOCKED = ("--require-hashes", "--only-binary", ":all:")
"""Wheels only: a source archive would bring build requirements that no lock has. For a lock's rows, not for `over`."""
COMPILING = {"PYC_INVALIDATION_MODE": "UNCHECKED_HASH", "PYTHONHASHSEED": "0"}
PIP = (
    *(sys.executable, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check"),
    *("--root-user-action=ignore", "--no-deps", *LOCKED),
)


def prepare(uv_lock: str, lock: str, to: str) -> None:
    folder = Path(to)
    (folder / "etc").mkdir(parents=True)
    for name in ("hosts", "resolv.conf"):  # every container gets them from outside: what an image has is never seen
        (folder / "etc" / name).touch()
    argv = (*PIP, "--target", str(folder / "uv"), "--requirement", uv_lock)
    status = subprocess.run(argv, check=False).returncode
    if status:
        print(*index_refusals(argv), sep="\n", flush=True)
        sys.exit(status)
    text = Path(lock).read_text(encoding="utf-8")
    for number, rows in enumerate(layers_of(text), start=1):
        (folder / f"{number}.txt").write_text(rows, encoding="utf-8")
    (folder / "sbom.cdx.json").write_text(sbom(text), encoding="utf-8")


def layer(folder: str, number: str) -> None:
    lock = Path(folder, f"{number}.txt")
    if lock.read_text(encoding="utf-8"):
        install(folder, *LOCKED, "--requirement", str(lock))


def over(folder: str, *requirements: str) -> None:
    others = [requirement for requirement in requirements if requirement]
    if others:
        install(folder, "--reinstall", *others)


def record(lock: str, to: str) -> None:
    """Write what xsft/image/code_layer.py reads as DepsRecord."""
    document = {
        "lock_sha256": hashlib.sha256(Path(lock).read_bytes()).hexdigest(),
        "site": sysconfig.get_path("purelib").lstrip("/"),
        "cache_tag": sys.implementation.cache_tag,
        "packages": {name: installed_files(name) for name in OVERLAYS if find_spec(name)},
    }
    Path(to).write_text(json.dumps(document, sort_keys=True), encoding="utf-8")
    os.utime(to, (SETTLED_S, SETTLED_S))


def install(folder: str, *what: str) -> None:
    started_s = time.time() - 1
    env = {**os.environ, **COMPILING, **uv_settings(pip_settings(os.environ.get("PIP_CONFIG_FILE", "")))}
    argv = (str(Path(folder, "uv", "bin", "uv")), *UV, "--python", sys.executable, *what)
    status = subprocess.run(argv, env=env, check=False).returncode
    if status:
        sys.exit(status)
    for root in {sysconfig.get_path("data"), sysconfig.get_path("purelib")}:
        settle(root, since_s=started_s)


def layers_of(lock: str) -> list[str]:
    """The lock's rows, one text per layer; each row is in one of them."""
    texts = ["" for _ in range(len(LAYERS) + 1)]
    for row in rows_of(lock):
        texts[layer_number(row)] += row
    return texts


def rows_of(lock: str) -> list[str]:
    """`name==version` with its hashes; comments of the whole lock are in none."""
    without_comments = re.sub(r"^#.*\n", "", lock, flags=re.MULTILINE)
    return re.split(r"^(?=[A-Za-z0-9])", without_comments, flags=re.MULTILINE)[1:]


def layer_number(row: str) -> int:
    name, _ = named(row)
    for number, names in enumerate(LAYERS):
        if name in names:
            return number
    return len(LAYERS)


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
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components}
    return json.dumps(document, indent=1)


def settle(root: str, *, since_s: float) -> None:
    """Give everything that was written since one time."""
    for folder, _, names in os.walk(root):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            if os.lstat(path).st_mtime >= since_s:
                os.utime(path, (SETTLED_S, SETTLED_S), follow_symlinks=False)


def installed_files(package: str) -> dict[str, str]:
    """sha256 of each file of an installed package; nothing of it is imported."""
    root = Path(find_spec(package).submodule_search_locations[0])
    files = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def pip_settings(path: str) -> dict[str, str]:
    """Options of a pip.conf for `pip install`: [install] wins over [global]. No file, no options."""
    parser = configparser.RawConfigParser()
    parser.read(path or [], encoding="utf-8")
    options = {}
    for name in ("global", "install"):
        if name in parser:
            options.update({key.replace("_", "-"): " ".join(text.split()) for key, text in parser[name].items()})
    return options


def uv_settings(options: dict[str, str]) -> dict[str, str]:
    """With several indexes pip takes the best of all; the lock's hashes say which that is.

    Not with one: only uv's own strategy says that an index answered 401 or 403.
    """
    settings = {variable: options[option] for option, variable in SETTINGS.items() if options.get(option)}
    if "UV_INDEX" in settings:
        settings["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return {"UV_LINK_MODE": "copy", **settings}


def index_refusals(argv: tuple[str, ...]) -> list[str]:
    """What an index answered to pip, which says so among hundreds of other lines only (one v undoes --quiet)."""
    done = subprocess.run((*argv, "-vvv"), capture_output=True, text=True, check=False)
    return [line.strip() for line in done.stdout.splitlines() if "Could not fetch URL" in line]


if __name__ == "__main__":
    {"prepare": prepare, "layer": layer, "over": over, "record": record}[sys.argv[1]](*sys.argv[2:])

"""Install what the deps image holds, with uv, which takes a quarter of pip's time for two gigabytes of packages.

    install.py prepare                 uv, and a folder for each layer: uv, this file, and its part of the lock
    install.py layer                   that layer's packages
    install.py over [REQUIREMENT…]     others in their place
    install.py record LOCK FILE        the lock's digest, and the installed files that a fork may replace

Runs while the image is built, with its own Python. uv itself is fetched by pip, locked too, and does not stay. Where
packages come from is said in a pip.conf, because that is what people have; uv does not read it.
"""

import configparser
import hashlib
import json
import os
import re
import shutil
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
HERE = Path(__file__).parent
PIP_CONF = os.environ.setdefault("PIP_CONFIG_FILE", "/run/secrets/pip_conf")
UV_CACHE = "/var/cache/uv"
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


def prepare() -> None:
    argv = (*PIP, "--target", str(HERE / "uv"), "--requirement", str(HERE / "installer.txt"))
    status = subprocess.run(argv, check=False).returncode
    if status:
        print(*index_refusals(argv), sep="\n", flush=True)
        sys.exit(status)
    if sys.version_info[:2] != (3, 12):
        sys.exit(f"xsft: the base has Python {sys.version_info[0]}.{sys.version_info[1]}, not 3.12")
    (HERE / "etc").mkdir()
    for name in ("hosts", "resolv.conf"):  # every container gets them from outside: what an image has is never seen
        (HERE / "etc" / name).touch()
    layers = layers_of((HERE / "requirements.txt").read_text(encoding="utf-8"))
    for number, rows in enumerate(layers, start=1):
        folder = HERE / str(number)
        shutil.copytree(HERE / "uv", folder / "uv", copy_function=os.link)
        shutil.copy(__file__, folder)
        (folder / "rows.txt").write_text(rows, encoding="utf-8")


def layer() -> None:
    lock = HERE / "rows.txt"
    if lock.read_text(encoding="utf-8"):
        install(*LOCKED, "--requirement", str(lock))


def over(*requirements: str) -> None:
    others = [requirement for requirement in requirements if requirement]
    if others:
        install("--reinstall", *others)


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


def install(*what: str) -> None:
    started_s = time.time() - 1
    paths = {"UV_CACHE_DIR": UV_CACHE, "TMPDIR": UV_CACHE}
    env = {**os.environ, **COMPILING, **paths, **uv_settings(PIP_CONF)}
    argv = (str(HERE / "uv" / "bin" / "uv"), *UV, "--python", sys.executable, *what)
    status = subprocess.run(argv, env=env, check=False).returncode
    if status:
        sys.exit(status)
    for root in {sysconfig.get_path("data"), sysconfig.get_path("purelib")}:
        settle(root, since_s=started_s)


def layers_of(lock: str) -> list[str]:
    """The lock's rows, `name==version` with its hashes, one text per layer; each row is in one of them."""
    texts = ["" for _ in range(len(LAYERS) + 1)]
    without_comments = re.sub(r"^#.*\n", "", lock, flags=re.MULTILINE)
    for row in re.split(r"^(?=[A-Za-z0-9])", without_comments, flags=re.MULTILINE)[1:]:
        name = re.sub(r"[-_.]+", "-", row.partition("==")[0]).lower()  # the one form that PyPI compares by
        texts[next((n for n, names in enumerate(LAYERS) if name in names), len(LAYERS))] += row
    return texts


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


def uv_settings(pip_conf: str) -> dict[str, str]:
    """uv's variables for the options of a pip.conf, where [install] wins over [global]. No file, no options.

    With several indexes pip takes the best of all; the lock's hashes say which that is. Not with one: only uv's own
    strategy says that an index answered 401 or 403.
    """
    parser = configparser.RawConfigParser(default_section="global")
    parser.read(pip_conf, encoding="utf-8")
    section = parser["install"] if "install" in parser else parser.defaults()
    options = {key.replace("_", "-"): " ".join(text.split()) for key, text in section.items()}
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

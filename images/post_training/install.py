"""Install what the deps image holds, with uv, which takes a quarter of pip's time for two gigabytes of packages.

    install.py UV_LOCK LOCK [REQUIREMENT…]

Runs while the image is built, with its own Python. uv itself is fetched by pip, locked too, and does not stay. Where
packages come from is said in a pip.conf (PIP_CONFIG_FILE), because that is what people have; uv does not read it.
"""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

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


def main(uv_lock: str, lock: str, *requirements: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        quiet = ("--quiet", "--no-cache-dir", "--disable-pip-version-check", "--root-user-action=ignore")
        pip = (sys.executable, "-m", "pip", "install", *quiet, "--require-hashes", "--no-deps", "--target", folder)
        run(*pip, "--requirement", uv_lock, env=os.environ, otherwise=index_refusals)
        uv = (str(Path(folder, "bin", "uv")), "pip", "install", "--python", sys.executable, *ALL)
        env = {**os.environ, **uv_settings(pip_settings(os.environ.get("PIP_CONFIG_FILE", "")))}
        run(*uv, "--require-hashes", "--requirement", lock, env=env)
        if others := tuple(filter(None, requirements)):
            run(*uv, "--reinstall", *others, env=env)


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

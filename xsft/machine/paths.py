"""The folders of xsft on this machine, by the XDG base directory specification; can be overridden for tests and CI."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from xsft.machine.process import own_environment

PRIVATE_FILE = 0o600


def cache_dir(env: Mapping[str, str], *, home: Path) -> Path:
    """Return the folder for data that can be rebuilt: environments, renderings. `XSFT_CACHE_DIR`, else
    `$XDG_CACHE_HOME/xsft`.
    """
    return _user_folder(env, override="XSFT_CACHE_DIR", xdg="XDG_CACHE_HOME", default=home / ".cache")


def state_dir(env: Mapping[str, str], *, home: Path) -> Path:
    """Return the folder for data that cannot be rebuilt: the records of runs. `XSFT_STATE_DIR`, else
    `$XDG_STATE_HOME/xsft`.
    """
    return _user_folder(env, override="XSFT_STATE_DIR", xdg="XDG_STATE_HOME", default=home / ".local" / "state")


def own_cache() -> Path:
    """Return the cache folder of the user who runs this process."""
    return cache_dir(own_environment(), home=Path.home())


def _user_folder(env: Mapping[str, str], *, override: str, xdg: str, default: Path) -> Path:
    if env.get(override):
        return Path(env[override]).expanduser().absolute()
    base = Path(env.get(xdg) or default)
    return (base if base.is_absolute() else default) / "xsft"  # the specification: a relative path is ignored


def private_folder(folder: Path) -> Path:
    """Create the folder and its missing parents for this user alone, whatever the umask; existing folders are not
    changed. `mkdir(parents=True)` applies its mode to the last folder only. source: XDG base directory specification,
    "0700".
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    if not missing:
        folder.mkdir(exist_ok=True)  # the error of a file in its place
    return folder


def hub_token(env: Mapping[str, str]) -> dict[str, str]:
    """Return the path of the file that the user's `hf auth login` wrote; the file is not read. source: huggingface_hub
    constants.py HF_TOKEN_PATH.
    """
    path = Path(env.get("HF_TOKEN_PATH") or _hub_home(env) / "token")
    return {"HF_TOKEN_PATH": str(path)} if path.is_file() else {}


def hub_cache(env: Mapping[str, str]) -> Path:
    """source: huggingface_hub constants.py [HF_HUB_CACHE]."""
    return Path(env.get("HF_HUB_CACHE") or _hub_home(env) / "hub")


def _hub_home(env: Mapping[str, str]) -> Path:
    """source: huggingface_hub constants.py [HF_HOME]."""
    cache = env.get("XDG_CACHE_HOME") or Path(env.get("HOME", "/")) / ".cache"
    return Path(env.get("HF_HOME") or Path(cache) / "huggingface")


def repository_folder(name: str, hub_cache: Path) -> Path:
    """source: huggingface_hub@2.4.0 file_download.py [repo_folder_name]."""
    return hub_cache / f"models--{name.replace('/', '--')}"

"""The folders of xsft on this machine, by the XDG base directory specification; the user's logins and git checkout
there.

Folders can be overridden for tests and CI. A process killed with -9 cannot remove its temporary folder, so a later one
does.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from xsft.base.errors import XsftError
from xsft.machine.process import own_environment, run

PRIVATE_FILE = 0o600
PREFIX = "xsft-scratch-"
OLD_S = 3600.0
"""A younger folder may not be locked yet, or may be used by a program that a killed process started."""
LOGIN = "Log in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file."
DMI_PRODUCT = Path("/sys/class/dmi/id/product_name")
"""Contains `Google Compute Engine` on such machines; source: google-auth auth/compute_engine/_metadata.py."""
GIT_TIMEOUT_S = 10.0
PLACES = "places.yaml"
_OID = "# branch.oid "


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


def places_file(start: Path, *, env: Mapping[str, str], home: Path) -> Path | None:
    """Return the first places.yaml in the order of `places_folders`, or None. One that cannot be read counts, such as a
    link that leads nowhere: its reader reports it.
    """
    files = (folder / PLACES for folder in places_folders(start, env=env, home=home))
    return next((file for file in files if os.path.lexists(file)), None)


def places_folders(start: Path, *, env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """Return the folders in which places.yaml is searched: `start`, the workload's folder; its parents, nearest first;
    then the user's configuration, `$XDG_CONFIG_HOME/xsft`.
    """
    user = _user_folder(env, override="", xdg="XDG_CONFIG_HOME", default=home / ".config")
    return (start, *start.parents, user)


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
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
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


@contextmanager
def scratch_folder(purpose: str, *, parent: Path | None = None) -> Iterator[Path]:
    """Yield a private folder, in `parent` or the system's folder of temporary files. It is removed at the end, or by a
    later xsft if this process is killed."""
    inside = parent or Path(tempfile.gettempdir())
    sweep_scratch(inside)
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{purpose}-", dir=inside, ignore_cleanup_errors=True) as name:
        handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(handle)


def sweep_scratch(folder: Path, *, older_s: float = OLD_S) -> None:
    """Remove this user's folders whose process has ended. Never raises: they are harmless."""
    before = time.time() - older_s
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if not entry.name.startswith(PREFIX) or not entry.is_dir(follow_symlinks=False):
                    continue
                status = entry.stat(follow_symlinks=False)
                if status.st_uid == os.getuid() and status.st_mtime < before:
                    _remove_unless_held(entry.path)


def _remove_unless_held(path: str) -> None:
    """Remove the folder unless it is locked. The kernel releases a lock when its holder dies."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(handle)


def random_hex(count: int) -> str:
    """Return `count` random bytes as hex: twice as many digits."""
    return secrets.token_hex(count)


def may_log_in(env: Mapping[str, str], *, product: Path = DMI_PRODUCT) -> bool:
    """Return whether google.auth.default could find a login; source: google-auth auth/_default.py and _cloud_sdk.py.

    Checked first: it saves the import of `google_login`, half a second, and seconds of search for a metadata server.
    """
    named = ("GOOGLE_APPLICATION_CREDENTIALS", "GCE_METADATA_HOST", "GCE_METADATA_ROOT")
    if any(env.get(name) for name in named):
        return True
    folder = Path(env.get("CLOUDSDK_CONFIG") or Path(env.get("HOME", "/")) / ".config" / "gcloud")
    return (folder / "application_default_credentials.json").exists() or _on_google_machine(product)


def _on_google_machine(product: Path) -> bool:
    try:
        return product.read_text(encoding="utf-8").startswith("Google")
    except (OSError, ValueError):
        return False


class Checkout(Struct, frozen=True, kw_only=True):
    commit: str
    """40 hex digits."""
    dirty: bool
    """A tracked file differs from the commit."""


def checkout(folder: Path) -> Checkout | None:
    """Return the checkout; None without a checkout, a first commit or git. Runs one process: `git status` shows
    both.
    """
    status = _git(folder, "status", "--porcelain=v2", "--branch", "--untracked-files=no")
    lines = (status or "").splitlines()
    commit = next((line.removeprefix(_OID) for line in lines if line.startswith(_OID)), "(initial)")
    if commit == "(initial)":
        return None
    return Checkout(commit=commit, dirty=any(not line.startswith("#") for line in lines))


def git_commit(folder: Path) -> str | None:
    """Return the commit checked out in `folder`; None if `checkout` returns None."""
    head = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    return head.strip() or None if head is not None else None


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = run(("git", "-C", str(folder), *arguments), env=own_environment(), timeout_s=GIT_TIMEOUT_S)
    except XsftError:
        return None
    return done.stdout if done.ok else None

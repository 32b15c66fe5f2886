"""Translate `gcluster job submit`, of Cluster Toolkit, to the flags of the xpk line for the same run. Pure.

source: cluster-toolkit@00774fd4 cmd/job/submit.go; `--gke-mtc-*` are newer.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from xsft.base.errors import SpecError
from xsft.catalog.tpu import slice_of, slice_on
from xsft.importing.cluster import FlagParser, unknown_flag
from xsft.importing.notes import Notes
from xsft.spec.refused import REFUSALS

XPK_FLAGS = {
    **{name: name for name in ("project", "cluster", "num-slices", "command", "priority", "pathways-gcs-location")},
    "location": "zone",
    "name": "workload",
    "compute-type": "tpu-type",
    "image": "docker-image",
    "restarts": "max-restarts",
    "restart-on-exit-codes": "restart-on-exit-codes",
    "gke-ttl-after-finished": "ttl-seconds-after-finished",
    "grace-period": "termination-grace-period-seconds",
    "image-pull-secret": "docker-image-pull-secret",
    "gke-nap-reservation": "reservation",
    "pathways-proxy-server-image": "proxy-server-image",
    "pathways-server-image": "server-image",
    "pathways-proxy-args": "custom-pathways-proxy-server-args",
    "pathways-server-args": "custom-pathways-server-args",
    "pathways-worker-args": "custom-pathways-worker-args",
}
"""gcluster's flag -> xpk's."""
FIELDS = {"queue": "place.queue", "service-account": "pods.service_account"}
"""Flag that xpk does not have -> workload field."""
DEFAULTS = {"restarts": "1", "gke-ttl-after-finished": "1h"}
_REFUSED = {
    "mount": "storage",
    "base-image": "base_docker_image",
    "build-context": "script_dir",
    "pathways-headless": "headless",
    "pathways-elastic-slices": "elastic_slices",
    "pathways-max-slice-restarts": "max_slice_restarts",
    "pathways-colocated-python-sidecar-image": "colocated_python_sidecar_image",
    "gke-mtc-enabled": "mtc_enabled",
    "gke-mtc-ramdisk-dir": "ramdisk_directory",
}
"""Flag -> the feature that xsft refuses."""
_PLACED = ("topology", "num-nodes", "placement-policy", "node-constraint", "cpu-affinity", "gke-scheduler")
DROPPED = {
    **dict.fromkeys(_PLACED, "the TPU type, the node pool and Kueue decide on which nodes the pods run"),
    **dict.fromkeys(("await-job-completion", "timeout"), "`xsft submit --wait --timeout` waits"),
    "platform": "the image is for linux/amd64",
    "verbose": "write libtpu's log level under env: TPU_STDERR_LOG_LEVEL",
    "gke-disable-parallel-containers": "xsft does not split the containers of tpu7x",
    "gke-nap-provisioning": "write it as tpu.capacity: on-demand, spot or reservation",
    "dry-run-out": "`xsft plan --manifest` prints the manifest",
    "pathways-head-np": "xpk's head runs on the node pool cpu-np",
    "pathways-worker-image": "under xpk the workers run the server's image",
    **{flag: f"refused ({REFUSALS[key].id}): {REFUSALS[key].reason}" for flag, key in _REFUSED.items()},
}
"""Flag -> why the workload does not have it."""
_SWITCHES = frozenset(
    {"pathways", "pathways-headless", "await-job-completion", "verbose", "gke-mtc-enabled"}
    | {"gke-disable-parallel-containers"}
)
_SHORT = {"image": ("-i",), "command": ("-e",), "name": ("-n",), "queue": ("-q",)}
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?")


SUBMIT = "gcluster job submit"


def is_submission(argv: tuple[str, ...]) -> bool:
    return argv[1:3] == ("job", "submit") and PurePosixPath(argv[0]).name == "gcluster"


def saved_settings(argvs: Iterable[tuple[str, ...]]) -> dict[str, str]:
    """Return what `gcluster job config set NAME VALUE` set, by flag."""
    return dict(argv[4:] for argv in argvs if argv[1:4] == ("job", "config", "set") and len(argv) == 6)


def translate(
    arguments: Sequence[str], saved: Mapping[str, str], notes: Notes
) -> tuple[str, tuple[str, ...], Mapping[str, str]]:
    """Return xpk's verb, xpk's arguments, and the workload fields for which xpk has no flag. Raises SpecError."""
    notes.differ(SUBMIT, now="target: xpk", why="xsft creates the JobSet through xpk, not gcluster")
    parser = FlagParser(prog="gcluster", add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    names = ("pathways", *XPK_FLAGS, *FIELDS, *DROPPED)
    for name in names:
        if name in _SWITCHES:
            parser.add_argument(f"--{name}", dest=name, nargs="?", const="true")
        else:
            parser.add_argument(*_SHORT.get(name, ()), f"--{name}", dest=name)
    namespace, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        options = tuple(f"--{name}" for name in names)
        raise SpecError(tuple(unknown_flag(SUBMIT, options, word) for word in unknown[:10]))
    flags: dict[str, str] = {**saved, **vars(namespace)}
    for flag, default in DEFAULTS.items():
        if flag not in flags:
            notes.differ(f"--{flag}", now=default, why="gcluster's default, made explicit")
    flags = {**DEFAULTS, **flags, "compute-type": _tpu_type(flags, notes)}
    for flag, text in flags.items():
        if flag in DROPPED and text != "false":
            notes.differ(f"--{flag}", given=text, why=DROPPED[flag])
    # xpk takes seconds, gcluster durations of Go.
    flags |= {flag: _seconds(flags[flag]) for flag in ("gke-ttl-after-finished", "grace-period") if flag in flags}
    verb = "create" if flags.get("pathways", "false") == "false" else "create-pathways"
    xpk = tuple(f"--{XPK_FLAGS[flag]}={text}" for flag, text in flags.items() if flag in XPK_FLAGS and text)
    return verb, xpk, {field: flags[flag] for flag, field in FIELDS.items() if flag in flags}


def _tpu_type(flags: Mapping[str, str], notes: Notes) -> str:
    """Return xpk's name of the slice that a machine type or a node label names, with the topology; else the text."""
    text, topology = flags.get("compute-type", ""), flags.get("topology", "")
    tpu_slice = slice_on(text, topology or None) or slice_of(text, topology)
    if tpu_slice is None:
        return text
    notes.differ("--compute-type", given=text, now=tpu_slice.xpk_type, why="xpk's name for these slices")
    return tpu_slice.xpk_type


def _seconds(text: str) -> str:
    """Return `1h30m` in seconds; other text unchanged, so that the check of the workload quotes it."""
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        return text
    return str(sum(int(count or 0) * seconds for count, seconds in zip(match.groups(), (3600, 60, 1), strict=True)))

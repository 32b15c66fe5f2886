"""`submit --through-xpk`: runs the printed xpk line with the pinned xpk, then reads the result from the cluster.

xpk runs with a private folder for its temporary files, its kubeconfig and its home (removed afterwards), without a
terminal, without telemetry and downloads, and never with --quiet: with it xpk deletes a running workload of the same
name (xpk@1.16.0 commands/workload.py). Its exit status is not trusted: it can fail after the JobSet was created.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml
from msgspec import Struct

from xsft.base.errors import EnvironmentMissing, Refused, SpecError, TimedOut, Unknown, XsftError
from xsft.base.lenient import JsonObject
from xsft.base.problems import error, note
from xsft.base.secrets import is_secret_variable, redact
from xsft.cluster.access import load_kubeconfig
from xsft.cluster.cluster import Cluster
from xsft.cluster.exactly_once import CreatedObject, ExistingObject
from xsft.environments.render import COMMAND_LINE, last_words
from xsft.launcher.readback import lacking_of_xpk, lost_by_xpk
from xsft.machine import process
from xsft.machine.paths import scratch_folder
from xsft.machine.process import ProcessResult
from xsft.planning.steps import Plan, Planned
from xsft.spec.base import written_fields

TIMEOUT_S = 900.0
"""xpk waits in steps of ten seconds, and gcloud may take long to log in."""
ADDED = ("--skip-validation",)
"""Without it xpk also requires crane, a tool that builds images, besides kubectl and gcloud."""
TOOLS = ("gcloud", "kubectl")
PASSED_ON = ("CLOUDSDK_", "GOOGLE_", "GCE_", "LC_", "SSL_", "REQUESTS_", "STORAGE_EMULATOR_HOST", "USE_GKE_")
LOGIN = ("CLOUDSDK_", "GOOGLE_APPLICATION_")
"""Variables with which gcloud logs in without a prompt."""
PASSED_ON_EXACTLY = frozenset(
    {"PATH", "LANG", "LD_LIBRARY_PATH", "USER", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"}
)
OFF = {
    "TELEMETRY_ENABLED": "false",
    "DEPENDENCY_AUTO_DOWNLOAD": "false",
    "XPK_TESTER": "false",
    "PIP_NO_INDEX": "1",  # xpk asks PyPI for its latest version at every start
    "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
}

NOTE = note(
    "through-xpk",
    "",
    "Created by xpk, so the JobSet has no xsft labels; the recorded manifest digest is that of the plan's manifest.",
)


def refuse_losses(plan: Plan) -> None:
    """Raise Refused if the xpk line alone would lose something that was requested, or cannot reach the cluster."""
    place = plan.run.place
    if place is None or place.context:
        raise Refused(
            "xpk supports only GKE clusters by project, zone and cluster, but the place has a kubeconfig context.",
            fix="Submit without --through-xpk.",
            id="xpk-cluster",
        )
    dropped = lost_by_xpk(plan.audit, requested=(*written_fields(plan.run.spec), "queue"))
    if dropped:
        fields = ", ".join(dict.fromkeys(row.field for row in dropped))
        raise Refused(
            f"xpk would drop settings of the workload: {fields} ({'; '.join(plan.by_hand)}).",
            fix="Submit without --through-xpk, or remove those fields.",
            id="xpk-loses",
        )


class ThroughXpk(Struct, frozen=True, kw_only=True):
    """A function that creates a plan's JobSet through its xpk line (for `Submitter.create`)."""

    python: Path
    """The Python of xpk's environment."""
    env: Mapping[str, str]
    """The user's environment variables."""
    run: Callable[..., ProcessResult] = process.run
    timeout_s: float = TIMEOUT_S

    def __call__(self, cluster: Cluster, plan: Planned, _mark: str) -> CreatedObject | ExistingObject:
        """Run xpk and read the JobSet back. Raises EnvironmentMissing without gcloud or kubectl, SpecError if xpk
        created nothing, Unknown if the outcome cannot be determined.
        """
        require_tools(self.env, otherwise="submit without --through-xpk")
        jobset = cluster.get_jobset(name=plan.jobset, namespace=plan.run.namespace)
        if jobset is not None:
            return ExistingObject(object=jobset)
        message, ended = self._xpk(cluster, plan)
        try:
            jobset = cluster.get_jobset(name=plan.jobset, namespace=plan.run.namespace)
        except XsftError as failed:
            raise _creation_unclear(plan, f"{message}; reading it back failed: {failed}") from None
        if jobset is None and ended:
            message = f"xpk did not create the JobSet {plan.jobset}: {message}"
            fix = "Correct what xpk reports, or submit without --through-xpk."
            raise SpecError((error("xpk-failed", "", message, fix),))
        if jobset is None:
            raise _creation_unclear(plan, message)
        if differences(plan, jobset):
            return ExistingObject(object=jobset)  # xpk found another one of this name
        return CreatedObject(object=jobset)

    def _xpk(self, cluster: Cluster, plan: Planned) -> tuple[str, bool]:
        """Run xpk. Return the end of its output, and whether it exited by itself with an error."""
        with scratch_folder("through-xpk") as scratch:
            # If gcloud writes no context, xpk uses the current context, so it must be the right one.
            configs = [load_kubeconfig(file) for file in cluster.access.kubeconfig]
            with_context = (
                config
                for config in configs
                if any(context.get("name") == cluster.context for context in config.get("contexts") or ())
            )
            kubeconfig = scratch / "kubeconfig"
            kubeconfig.touch(mode=0o600)
            content = {**next(with_context, {}), "current-context": cluster.context}
            kubeconfig.write_text(yaml.safe_dump(content), encoding="utf-8")
            argv = (str(self.python), *COMMAND_LINE, *(plan.xpk_argv or ())[1:], *ADDED)
            env = environment(self.env, scratch=scratch)
            project = plan.run.place.project if plan.run.place else None
            number = project_number(project, env=env, run=self.run)
            try:
                done = self.run((*argv, *number), env=env, cwd=scratch, timeout_s=self.timeout_s)
            except TimedOut:
                return f"it timed out after {self.timeout_s:g} s", False
        return words_of(done), not done.ok


def differences(plan: Planned, jobset: JsonObject) -> list[str]:
    """Return the differences between plan and cluster (for `Submitter.compare`)."""
    return lacking_of_xpk(plan.audit, manifest=plan.manifest or {}, stored=jobset)


def environment(users: Mapping[str, str], *, scratch: Path) -> dict[str, str]:
    """Return the variables that gcloud needs to log in, and no other of the user's: no secret, no kubeconfig, no xpk
    setting.
    """
    home = users.get("HOME") or str(Path.home())
    passed_on = {"CLOUDSDK_CONFIG": str(Path(home) / ".config" / "gcloud")}
    for name, value in users.items():
        upper = name.upper()
        is_named = upper in PASSED_ON_EXACTLY or upper.startswith(PASSED_ON)
        # gcloud's variables may name a file of credentials, and so look like a secret.
        if is_named and (upper.startswith(LOGIN) or not is_secret_variable(name, value)):
            passed_on[name] = value
    private = {"HOME": str(scratch), "TMPDIR": str(scratch), "KUBECONFIG": str(scratch / "kubeconfig")}
    return {**passed_on, **private, **OFF}


def require_tools(env: Mapping[str, str], *, otherwise: str) -> None:
    """Raise EnvironmentMissing without the programs that xpk calls. `otherwise`: the alternative to name in the fix."""
    missing = [tool for tool in TOOLS if shutil.which(tool, path=env.get("PATH")) is None]
    if missing:
        raise EnvironmentMissing(
            f"xpk needs {' and '.join(missing)} on PATH.",
            fix=f"Install the Google Cloud CLI with kubectl (gcloud components install kubectl), or {otherwise}.",
            id="xpk-tools",
        )


def project_number(
    project: str | None, *, env: Mapping[str, str], run: Callable[..., ProcessResult] = process.run
) -> tuple[str, ...]:
    """Return xpk's option with the project number. It saves xpk a second login (application default credentials), with
    which it would look the number up itself.
    """
    if not project:
        return ()
    argv = ("gcloud", "projects", "describe", project, "--format=value(projectNumber)")
    try:
        done = run(argv, env=env, timeout_s=60)
    except XsftError:
        return ()
    number = done.stdout.strip()
    if not done.ok or not number.isdecimal():
        return ()
    return (f"--project-number={number}",)


def _creation_unclear(plan: Planned, message: str) -> Unknown:
    return Unknown(
        f"xpk ran, but the JobSet {plan.jobset} was not found: {message}",
        fix="Run the same command again: it finds what was created, or creates it.",
        id="create-unclear",
    )


def words_of(done: ProcessResult) -> str:
    """Return the last lines of what xpk printed, without secrets."""
    return redact(last_words(done.stdout + done.stderr))[-600:]

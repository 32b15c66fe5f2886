"""Ask the user before a server is created on a cluster, and wait for the server, for `xsft serve FILE` and `xsft run
FILE`."""

from __future__ import annotations

import shlex

from xsft.base.aliases import ShowLine
from xsft.base.amounts import duration_text
from xsft.base.errors import Refused, RunFailed, TimedOut
from xsft.base.reporting import AskUser
from xsft.cluster.cluster import Cluster
from xsft.launcher.server_plan import ServingPlan
from xsft.machine import clock
from xsft.stages.create_server import find_server, stop_argv


def confirm_server(plan: ServingPlan, *, ask: AskUser | None) -> None:
    """Ask before accelerators are taken; None: do not ask. Raises Refused for any answer but yes."""
    shape = plan.inputs.shape
    question = f"Create {plan.run_name} on one {shape.machine} ({shape.name}), until you end it? [y/N] "
    if ask is not None and not ask(question):
        raise Refused("Nothing was created.", fix="Answer y, or pass --yes.", id="not-confirmed")


def wait_for_server(
    cluster: Cluster, plan: ServingPlan, *, timeout_s: float | None, poll_s: float, say: ShowLine
) -> None:
    """Return when /health answers, as the readiness of its pod says. Raises RunFailed if the server cannot start or is
    deleted, TimedOut.
    """
    began, last_why = clock.monotonic(), ""
    while True:
        now = find_server(cluster, plan)
        if now.why != last_why:
            say(f"{plan.run_name}: {now.why}")
            last_why = now.why
        match now.state:
            case "done":
                return
            case "failed" | "torn" | "missing":
                fix = f"It is kept. To end it: {stop_line(cluster, plan)}"
                raise RunFailed(f"{plan.run_name} does not serve: {now.why}", fix=fix, id="server-failed")
            case "running":
                pass
        if timeout_s is not None and clock.monotonic() - began + poll_s > timeout_s:
            fix = "The server continues to start; the same command finds it and waits again."
            raise TimedOut(f"Timed out after {duration_text(timeout_s)}: {plan.run_name}: {now.why}.", fix=fix)
        clock.pause(poll_s)


def stop_line(cluster: Cluster, plan: ServingPlan) -> str:
    return shlex.join(stop_argv(cluster, plan))

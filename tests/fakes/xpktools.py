"""gcloud and kubectl as xpk@1.16.0 and xsft call them: two small programs, for the stand-in's API or a real one.

They write every call into `calls` beside them. kubectl's apply creates what is not there and says "unchanged" of what
is. What they were told to fail at lies in `fails.json`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.fakes.kubeapi import KubeApi

RBAC = "rbac.authorization.k8s.io"

_COMMON = """\
#!{python} -IS
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
me, args = os.path.basename(__file__), sys.argv[1:]
call = dict(argv=[me, *args], env=dict(os.environ), tty=sys.stdin.isatty())
with open(os.path.join(here, "calls"), "a") as log:
    log.write(json.dumps(call) + "\\n")
told = json.load(open(os.path.join(here, "told.json")))
line = " ".join([me, *args])
fails = [f for f in told["fails"] if f["match"] in line and f.get("when") != "after"]
if fails:
    sys.stderr.write(fails[0]["says"] + "\\n")
    sys.exit(1)
"""

GCLOUD = (
    _COMMON
    + """\
if "get-credentials" in args:
    text = open(os.path.join(here, "kubeconfig.json")).read()
    with open(os.path.expandvars("$KUBECONFIG"), "w") as file:
        file.write(text)
elif args[:2] == ["projects", "describe"]:
    print("123456")
elif args[:3] == ["container", "clusters", "list"]:
    print("us-east5")
"""
)

KUBECTL = (
    _COMMON
    + """\
import urllib.request, urllib.error
config = json.load(open(os.environ["KUBECONFIG"])) if args[:1] != ["version"] else None
def ask(method, path, body=None):
    url = config["clusters"][0]["cluster"]["server"] + path
    headers = {"Authorization": "Bearer " + config["users"][0]["user"]["token"], "Content-Type": "application/json"}
    request = urllib.request.Request(url, method=method, headers=headers, data=body and json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as failed:
        return failed.code, failed.read().decode()
if args[:2] == ["get", "configmap"]:
    print("map[v6e-256:128]" if "-resources-" in args[2] else "map[xpk_version:v1.16.0]")
elif args[:2] == ["get", "workloads"]:
    print("\\n".join(["Jobset", *told["workloads"]]))
elif args[:1] == ["apply"]:
    sys.path.insert(0, told["site"])
    import yaml
    body = yaml.safe_load(open(args[args.index("-f") + 1]))
    namespace = args[args.index("-n") + 1] if "-n" in args else "default"
    path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/" + namespace + "/jobsets"
    code, said = ask("GET", path + "/" + body["metadata"]["name"])
    if code == 200:
        print("jobset.jobset.x-k8s.io/" + body["metadata"]["name"] + " unchanged")
    else:
        code, said = ask("POST", path + "?fieldManager=kubectl-client-side-apply", body)
        if code != 201:
            sys.exit("Error from server: " + str(said))
        print("jobset.jobset.x-k8s.io/" + body["metadata"]["name"] + " created")
    if [f for f in told["fails"] if f.get("when") == "after" and f["match"] in line]:
        sys.exit(1)
"""
)


REAL_KUBECTL = (
    _COMMON
    + """\
import subprocess
status = subprocess.run([told["kubectl"], *args], check=False).returncode
sys.exit(status or len([f for f in told["fails"] if f.get("when") == "after" and f["match"] in line]))
"""
)


@dataclass(frozen=True, kw_only=True)
class Server:
    """The server in the kubeconfig that gcloud writes; `kubectl`: a real one to call, None for the stand-in's."""

    url: str
    token: str
    ca: Path | None = None
    kubectl: str | None = None


@dataclass
class Tools:
    """A folder for the front of PATH."""

    folder: Path
    kubectl: str | None = None

    @property
    def calls(self) -> list[dict[str, object]]:
        file = self.folder / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def lines(self) -> list[str]:
        return [" ".join(call["argv"]) for call in self.calls]  # type: ignore[arg-type]

    def tell(self, *, fails: tuple[dict[str, str], ...] = (), workloads: tuple[str, ...] = ()) -> None:
        site = str(Path(yaml.__file__).parents[1])
        behaviour = {"fails": fails, "workloads": workloads, "site": site, "kubectl": self.kubectl}
        (self.folder / "told.json").write_text(json.dumps(behaviour))


def furnish(folder: Path, server: Server, *, context: str) -> Tools:
    """The programs."""
    folder.mkdir()
    for name, text in (("gcloud", GCLOUD), ("kubectl", REAL_KUBECTL if server.kubectl else KUBECTL)):
        program = folder / name
        program.write_text(text.replace("{python}", sys.executable))
        program.chmod(0o755)
    authority = {"certificate-authority": str(server.ca)} if server.ca else {}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": "c", "cluster": {"server": server.url, **authority}}],
        "users": [{"name": "u", "user": {"token": server.token}}],
        "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
    }
    (folder / "kubeconfig.json").write_text(json.dumps(content))
    tools = Tools(folder, server.kubectl)
    tools.tell()
    return tools


def serving_xpk(api: KubeApi) -> Server:
    """The stand-in, which from now on serves what xpk needs beside JobSets."""
    api.objects.kinds |= {
        "/serviceaccounts": (("v1",), "ServiceAccount", True),
        f"{RBAC}/roles": (("v1",), "Role", True),
        f"{RBAC}/rolebindings": (("v1",), "RoleBinding", True),
        "storages.xpk.x-k8s.io/storages": (("v1",), "Storage", False),
    }
    return Server(url=api.url, token=api.token)

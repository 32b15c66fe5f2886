"""The rules by which the real server refuses, as far as observed (study: infra §4.1, §4.2), and its defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Cause = tuple[str, str]

DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
CONTAINER = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
QUEUE = "kueue.x-k8s.io/queue-name"
JOBSET_FIELDS = {
    "replicatedJobs",
    "network",
    "successPolicy",
    "failurePolicy",
    "startupPolicy",
    "suspend",
    "coordinator",
    "managedBy",
    "ttlSecondsAfterFinished",
}


@dataclass
class Refusal:
    code: int
    reason: str
    message: str
    causes: list[Cause]


def refusal(kind: str, new: Json, *, strict: bool) -> Refusal | None:
    match kind:
        case "JobSet":
            return _jobset(new, strict=strict)
        case "Job":
            return _invalid("Job.batch", new, [*_labels("metadata.labels", new["metadata"]), *_job(new)])
        case _:
            return None


def defaulted(kind: str, new: Json) -> Json:
    """source: jobset@v0.10.1 pkg/webhooks/jobset_webhook.go; Kueue suspends what has a queue."""
    if kind != "JobSet":
        return new
    spec = new.setdefault("spec", {})
    spec["network"] = {"enableDNSHostnames": True, "publishNotReadyAddresses": True, **(spec.get("network") or {})}
    spec.setdefault("successPolicy", {"operator": "All"})
    if QUEUE in (new["metadata"].get("labels") or {}):
        spec["suspend"] = True
    for replicated in spec.get("replicatedJobs") or ():
        replicated.setdefault("replicas", 1)
        replicated["template"].setdefault("spec", {}).setdefault("completionMode", "Indexed")
    return new


def selected(item: Json, selector: str) -> bool:
    """Label selectors: `a=b`, `a in (b,c)`, `a`, `!a`, joined by commas."""
    labels = item["metadata"].get("labels") or {}
    for term in filter(None, re.split(r",(?![^(]*\))", selector)):
        key, _, values = term.partition(" in ")
        if values:
            if labels.get(key) not in [v.strip() for v in values.strip("()").split(",")]:
                return False
        elif "=" in term:
            key, _, value = term.replace("==", "=").partition("=")
            if labels.get(key) != value:
                return False
        elif (term.removeprefix("!") in labels) == term.startswith("!"):
            return False
    return True


def has_fields(item: Json, selector: str) -> bool:
    """Field selectors: `a.b=c`, joined by commas."""
    for term in filter(None, selector.split(",")):
        path, _, value = term.replace("==", "=").partition("=")
        field_value: Any = item
        for key in path.split("."):
            field_value = (field_value or {}).get(key)
        if field_value != value:
            return False
    return True


def _jobset(new: Json, *, strict: bool) -> Refusal | None:
    unknown = [name for name in new.get("spec", {}) if name not in JOBSET_FIELDS]
    if unknown and strict:
        words = f'strict decoding error: unknown field "spec.{unknown[0]}"'
        head = 'JobSet in version "v1alpha2" cannot be handled as a JobSet: '
        return Refusal(400, "BadRequest", head + words, [])
    metadata = new["metadata"]
    if not SUBDOMAIN.fullmatch(metadata.get("name", "")):
        why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
        return _invalid(
            "JobSet.jobset.x-k8s.io", new, [("metadata.name", f'Invalid value: "{metadata["name"]}": {why}')]
        )
    bad = [*_labels("metadata.labels", metadata)]
    if bad:
        return _invalid("JobSet.jobset.x-k8s.io", new, bad)
    denied = list(_webhook(new))
    if denied:
        message = f'admission webhook "vjobset.kb.io" denied the request: {", ".join(denied)}'
        return Refusal(403, "Forbidden", message, [])
    return None


def _webhook(new: Json) -> Iterator[str]:
    name, spec = new["metadata"]["name"], new["spec"]
    names = {replicated["name"] for replicated in spec["replicatedJobs"]}
    for i, replicated in enumerate(spec["replicatedJobs"]):
        job = f"{name}-{replicated['name']}-{replicated['replicas'] - 1}"
        parallelism = replicated["template"]["spec"].get("parallelism", 1)
        if not DNS_LABEL.fullmatch(job):
            rule = "a DNS-1035 label must consist of lower case alphanumeric characters or '-'"
            yield f'spec.replicatedJobs[{i}].name: Invalid value: "{job}": {rule}'
        elif len(job) + 1 + len(str(parallelism - 1)) + 6 > 63:
            rule = "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters"
            yield f'spec.replicatedJobs[{i}].name: Invalid value: "{job}": {rule}'
    coordinator = (spec.get("coordinator") or {}).get("replicatedJob")
    if coordinator and coordinator not in names:
        yield f"coordinator replicatedJob {coordinator} does not exist"
    for target in (spec.get("successPolicy") or {}).get("targetReplicatedJobs") or ():
        if target not in names:
            yield f"invalid replicatedJob name '{target}' does not appear in .spec.ReplicatedJobs"


def _job(new: Json) -> Iterator[Cause]:
    template = new["spec"]["template"]
    pod = template["spec"]
    yield from _labels("spec.template.labels", template.get("metadata") or {})
    volumes = {volume["name"] for volume in pod.get("volumes") or ()}
    containers = [*(pod.get("initContainers") or ()), *pod["containers"]]
    for i, container in enumerate(pod["containers"]):
        yield from _container(f"spec.template.spec.containers[{i}]", container, volumes)
    yield from _restart(new["spec"], pod)
    yield from _exit_codes(new["spec"], {c["name"] for c in containers})


def _container(where: str, container: Json, volumes: set[str]) -> Iterator[Cause]:
    if not container.get("image"):
        yield f"{where}.image", "Required value"
    if not CONTAINER.fullmatch(container["name"]):
        yield f"{where}.name", f'Invalid value: "{container["name"]}": a lowercase RFC 1123 label must consist of …'
    for i, mount in enumerate(container.get("volumeMounts") or ()):
        if mount["name"] not in volumes:
            yield f"{where}.volumeMounts[{i}].name", f'Not found: "{mount["name"]}"'
    for i, env in enumerate(container.get("env") or ()):
        if not re.fullmatch(r"[\x21-\x3c\x3e-\x7e]+", env["name"]):
            rule = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            yield f"{where}.env[{i}].name", f'Invalid value: "{env["name"]}": {rule}'
        if env.get("value") and env.get("valueFrom"):
            yield f"{where}.env[{i}].valueFrom", 'Invalid value: "": may not be specified when `value` is not empty'
    tpu = str(((container.get("resources") or {}).get("limits") or {}).get("google.com/tpu", "0"))
    if not tpu.isdigit():
        yield f"{where}.resources.limits[google.com/tpu]", f'Invalid value: "{tpu}": must be an integer'


def _restart(spec: Json, pod: Json) -> Iterator[Cause]:
    where, policy = "spec.template.spec.restartPolicy", pod.get("restartPolicy", "Always")
    if policy not in ("OnFailure", "Never"):
        yield where, 'Required value: valid values: "OnFailure", "Never"'
    elif policy != "Never" and spec.get("podFailurePolicy"):
        yield where, f'Invalid value: "{policy}": only "Never" is supported when podFailurePolicy is specified'


def _exit_codes(spec: Json, containers: set[str]) -> Iterator[Cause]:
    for i, rule in enumerate((spec.get("podFailurePolicy") or {}).get("rules") or ()):
        codes = rule.get("onExitCodes") or {}
        words = f"spec.podFailurePolicy.rules[{i}].onExitCodes"
        values = codes.get("values") or []
        if codes.get("operator") == "In" and 0 in values:
            yield f"{words}.values[{values.index(0)}]", "Invalid value: 0: must not be 0 for the In operator"
        if values != sorted(values):
            yield f"{words}.values", f"Invalid value: {values}: must be ordered"
        name = codes.get("containerName")
        if name and name not in containers:
            rule_text = "must be one of the container or initContainer names in the pod template"
            yield f"{words}.containerName", f'Invalid value: "{name}": {rule_text}'


def _labels(where: str, metadata: Json) -> Iterator[Cause]:
    for value in (metadata.get("labels") or {}).values():
        if len(value) > 63:
            yield where, f'Invalid value: "{value}": must be no more than 63 bytes'
        elif not LABEL_VALUE.fullmatch(value):
            yield where, f'Invalid value: "{value}": a valid label must be an empty string or consist of …'


def _invalid(kind: str, new: Json, causes: list[Cause]) -> Refusal | None:
    if not causes:
        return None
    words = ", ".join(f"{field}: {message}" for field, message in causes)
    text = f"[{words}]" if len(causes) > 1 else words
    return Refusal(422, "Invalid", f'{kind} "{new["metadata"]["name"]}" is invalid: {text}', causes)

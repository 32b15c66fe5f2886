"""Messages of engines and registries: (words, id, exit status, in the fix, whether trying again may help)."""

from __future__ import annotations

WRITER = "roles/artifactregistry.writer"

SAID = [
    ("toomanyrequests: Quota exceeded for quota metric 'Requests'", "registry-rate-limited", 5, "a few minutes", True),
    ("error parsing HTTP 429 response body: unexpected end of JSON input", "registry-rate-limited", 5, "minutes", True),
    ("received unexpected HTTP status: 500 Internal Server Error", "registry-unreachable", 5, "Try again", True),
    ("received unexpected HTTP status: 503 Service Unavailable", "registry-unreachable", 5, "Try again", True),
    ("write tcp 127.0.0.1:1->127.0.0.1:2: connection reset by peer", "registry-unreachable", 5, "Try again", True),
    ('Patch "https://h/v2/": EOF', "registry-unreachable", 5, "Try again", True),
    ("net/http: TLS handshake timeout", "registry-unreachable", 5, "Try again", True),
    ("dial tcp: lookup h on 10.0.0.1:53: no such host", "registry-unreachable", 5, "DNS", False),
    ("no basic auth credentials", "registry-login-refused", 5, "application-default login", False),
    ("unauthorized: authentication required", "registry-login-refused", 5, "application-default login", False),
    ("denied: Permission 'artifactregistry.repositories.uploadArtifacts' denied on resource", "registry-forbidden", 5,
     WRITER, False),
    ("error parsing HTTP 403 response body: <html>", "registry-forbidden", 5, WRITER, False),
    ('name unknown: Repository "r" not found', "repository-missing", 3, "--create", False),
    ("write /var/lib/docker/tmp/x: no space left on device", "disk-full", 3, "docker system df", False),
    ("manifest for h/r:t not found: manifest unknown", "repository-missing", 3, "--create", False),
    ("something new", "docker-failed", 3, "docker info", False),
]  # fmt: skip

"""Messages of engines and registries: (words, id, exit status, in the fix)."""

from __future__ import annotations

WRITER = "roles/artifactregistry.writer"

SAID = [
    ("toomanyrequests: Quota exceeded for quota metric 'Requests'", "registry-rate-limited", 5, "a few minutes"),
    ("error parsing HTTP 429 response body: unexpected end of JSON input", "registry-rate-limited", 5, "minutes"),
    ("received unexpected HTTP status: 500 Internal Server Error", "registry-unreachable", 5, "Try again"),
    ("received unexpected HTTP status: 503 Service Unavailable", "registry-unreachable", 5, "Try again"),
    ("write tcp 127.0.0.1:1->127.0.0.1:2: connection reset by peer", "registry-unreachable", 5, "Try again"),
    ('Patch "https://h/v2/": EOF', "registry-unreachable", 5, "Try again"),
    ("net/http: TLS handshake timeout", "registry-unreachable", 5, "Try again"),
    ("dial tcp: lookup h on 10.0.0.1:53: no such host", "registry-unreachable", 5, "DNS"),
    ("no basic auth credentials", "registry-login-refused", 5, "application-default login"),
    ("unauthorized: authentication required", "registry-login-refused", 5, "application-default login"),
    ("denied: Permission 'artifactregistry.repositories.uploadArtifacts' denied on resource", "registry-forbidden", 5,
     WRITER),
    ("error parsing HTTP 403 response body: <html>", "registry-forbidden", 5, WRITER),
    ('name unknown: Repository "r" not found', "repository-missing", 3, "--create"),
    ("write /var/lib/docker/tmp/x: no space left on device", "disk-full", 3, "docker system df"),
    ("manifest for h/r:t not found: manifest unknown", "repository-missing", 3, "--create"),
    ("something new", "docker-failed", 3, "docker info"),
]  # fmt: skip

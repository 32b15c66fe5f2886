"""The forms of names in a workload: each has a pattern, and words for the message about a mistyped name. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
NAME = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""xpk's rule for workloads and clusters (xpk@1.16.0 parser/validators.py name_type)."""
DNS_SUBDOMAIN = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"
ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
GCS_URI = r"^gs://[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9](/[^\x00-\x1f\x7f]*)?$"
PRINTABLE = r"^[^\x00-\x1f\x7f]+$"
IMAGE = (
    r"^[a-z0-9]([-._a-z0-9]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][-._A-Za-z0-9]{0,127})?(@sha256:[0-9a-f]{64})?$"
)
IMAGE_NAME = r"^[a-z0-9]+([-_][a-z0-9]+)*$"
PROJECT = r"^([a-z0-9.-]+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]$"
ZONE = r"^[a-z]+-[a-z]+[0-9]+(-[a-z])?$"
CONTEXT = r"^[^\s\x00-\x1f]+$"
REGISTRY = r"^[a-z0-9][-./_a-z0-9:]*$"
HUB_ID = r"^[A-Za-z0-9][-._A-Za-z0-9]*(/[-._A-Za-z0-9]+)?$"
HUB_ID_OR_FOLDER = rf"{HUB_ID}|^(/|\.\.?/)[^\x00-\x1f\x7f]*$"
RESERVATION = r"^(projects/[-a-z0-9.:]+/reservations/)?[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
SECRET_KEY = r"^[-._a-zA-Z0-9]+$"  # noqa: S105 - a pattern
LABEL_NAME = r"^([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?$"
LABEL_VALUE = r"^([A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?)?$"
"""source: kubernetes.io/docs/concepts/overview/working-with-objects/labels, "Syntax and character set"."""

WORDS: Mapping[str, str] = MappingProxyType(
    {
        DNS_LABEL: "lower-case letters, digits and dashes, with a letter or digit at both ends",
        DNS_SUBDOMAIN: "lower-case letters, digits, dashes and dots, with a letter or digit at both ends",
        NAME: "lower-case letters, digits and dashes, starting with a letter and not ending with a dash",
        ENV_NAME: "letters, digits and underscores, not starting with a digit",
        GCS_URI: "gs://bucket or gs://bucket/path, the bucket in lower case",
        PRINTABLE: "printable text",
        IMAGE: "registry/repository:tag or registry/repository@sha256:<64 hex digits>, the path in lower case",
        IMAGE_NAME: "the name of a folder under images/, in lower case",
        PROJECT: "a Google Cloud project id: 6 to 30 lower-case letters, digits and dashes",
        ZONE: "a zone or region such as us-east5-b or us-east5",
        CONTEXT: "the name of a kubeconfig context, without spaces",
        REGISTRY: "a registry path such as us-docker.pkg.dev/my-project/xsft, in lower case",
        HUB_ID: "owner/name as on Hugging Face",
        HUB_ID_OR_FOLDER: "owner/name as on Hugging Face, or a folder of this machine: /path, ./path or ../path",
        RESERVATION: "the name of a reservation, or projects/PROJECT/reservations/NAME; not a block of a reservation",
        SECRET_KEY: "letters, digits, dashes, dots and underscores",
        LABEL_NAME: "name or domain/name, the name of at most 63 letters, digits, dashes, dots and underscores",
        LABEL_VALUE: "letters, digits, dashes, dots and underscores, with a letter or digit at both ends",
    }
)

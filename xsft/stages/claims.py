"""Claims of conversions on a cluster: the first caller for some weights and output names the run that converts them,
and every later caller, under whatever name, joins that run.

`<first try>/xsft/claim-<12 hex digits of the inputs>.json`, written once and never changed. A claim names no process:
the JobSet and records of its run show whether it is running, ended or failed. A failed one is tried again under its
name.
"""

from __future__ import annotations

import json

import msgspec
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from xsft.base.errors import Refused
from xsft.machine.process import user_name
from xsft.records.record_files import RecordStore
from xsft.spec.conversion_inputs import DIGITS
from xsft.weights.conversion_plan import ConversionPlan

SCHEMA = "xsft.conversion-claim/1"
MAX_BYTES = 1 << 16


class ConversionClaim(Struct, frozen=True, kw_only=True):
    """The run that converts some weights into one output."""

    run_name: str
    """Name of the conversion."""
    training: str
    """Run that it was first planned for."""
    user: str = ""
    at: str = ""
    """UTC, ISO 8601."""


_CLAIM = msgspec.json.Decoder(ConversionClaim)


def read_claim(store: RecordStore, plan: ConversionPlan) -> ConversionClaim | None:
    """Return the claim, or None without one. Raises Unreachable if it cannot be read, Refused if it is damaged."""
    path = claim_path(plan)
    content = store.objects_at(path).read(path, limit=MAX_BYTES)
    if content is None:
        return None
    try:
        return _CLAIM.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError) as broken:
        fix = "Look at the file, and move it away if no conversion is in progress; nothing was changed."
        raise Refused(f"{path} does not say which run converts these weights: {broken}", fix=fix) from broken


def take_claim(store: RecordStore, plan: ConversionPlan) -> ConversionClaim:
    """Return the claim that holds: the one that exists, else a new one for this plan's run. Raises as `read_claim` and
    `Objects.create`."""
    if held := read_claim(store, plan):
        return held
    own = ConversionClaim(run_name=plan.run_name, training=plan.training, user=user_name(), at=store.now())
    path = claim_path(plan)
    text = json.dumps({"schema": SCHEMA, **to_builtins(own)}, indent=1, ensure_ascii=False) + "\n"
    store.objects_at(path).create(path, text.encode())
    return read_claim(store, plan) or own


def under_claim(plan: ConversionPlan, claim: ConversionClaim | None) -> ConversionPlan:
    """Return the plan under the name of the run that converts these weights into this output."""
    if claim is None:
        return plan
    return replace(plan, run_name=claim.run_name)


def claim_path(plan: ConversionPlan) -> str:
    return f"{plan.first}/xsft/claim-{plan.digest[:DIGITS]}.json"

"""Records of submissions and local runs: types, JSON, what must never be in them. Pure; `xsft.effects.records` keeps
them. docs/reference/records.md has the shape.
"""

LOCAL_RECORD = "run.json"

"""Records of submissions and local runs: types, JSON, removal of secrets. Pure; `xsft.effects.records` stores them.
docs/reference/records.md has the format.
"""

LOCAL_RECORD = "run.json"

"""`xsft import`: turn a pasted `xpk workload create[-pathways]` command into a workload. Pure; no pasted command is
run.
"""

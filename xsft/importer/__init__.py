"""`xsft import`: a pasted `xpk workload create[-pathways]` line becomes a workload. Pure; nothing is ever executed."""

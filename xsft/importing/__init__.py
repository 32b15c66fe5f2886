"""`xsft import`: a pasted command becomes a workload."""

"""Checks of a cluster: what it lacks for a run. A submission and `xsft doctor` read the cluster for them. Pure."""

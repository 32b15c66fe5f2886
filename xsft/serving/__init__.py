"""Serve an export on a cluster: what decides the server, its digest, and the plan. Pure."""

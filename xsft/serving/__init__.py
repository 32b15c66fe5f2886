"""Serve an export on a cluster: the server's inputs, their digest, and the plan. Pure."""

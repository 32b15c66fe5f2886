"""The stages of a workload, from the conversion to the server: their order and their states. Pure."""

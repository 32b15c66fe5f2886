"""A workload: YAML to WorkloadSpec to Run, places, modes, digests, and the inputs of its stages. Pure."""

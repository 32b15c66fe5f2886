"""Whether a run's step fits into the memory of its chips, as the TPU compiler says it. Pure."""

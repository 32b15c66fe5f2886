"""Answers whether a run's step fits into the memory of its chips, by the TPU compiler. Pure."""

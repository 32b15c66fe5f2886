"""Whether a run's step fits into the memory of its chips: the TPU compiler's verdict, an estimate, a search."""

"""The state of a run: the types of the evidence (`model`), and the function that returns the state (`classify`).
Pure."""

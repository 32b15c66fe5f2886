"""The state of a run: what was read of it (`model`), and the one word for that (`classify`). Pure."""

"""What a run is doing: what was read of it (`model`), and the one word for that (`classify`). Pure."""

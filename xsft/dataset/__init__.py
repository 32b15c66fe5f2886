"""What a model is given to learn from, as MaxText's own input pipeline makes it. Pure."""

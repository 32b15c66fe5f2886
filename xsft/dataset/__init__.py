"""The training examples that a model gets, as MaxText's own input pipeline makes them. Pure."""

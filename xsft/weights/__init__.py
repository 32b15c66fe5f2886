"""Checkpoints and Hugging Face weights: read, inspected, compared; the plans that convert and export them."""

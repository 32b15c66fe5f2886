"""Evaluation of a training: answers and losses of the base and the tuned weights, and a verdict over them. Pure."""

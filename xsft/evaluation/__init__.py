"""Evaluation of a training: plan, inputs, report and verdict. Pure."""

"""Convert Hugging Face weights to a MaxText checkpoint, once per content: inputs, destination and estimates. Pure.

This machine (`xsft.effects.local`) and a cluster execute the same `ConversionPlan`.
"""

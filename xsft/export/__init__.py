"""Export trained weights to a Hugging Face folder, once per content: inputs, destination, what is verified. Pure."""

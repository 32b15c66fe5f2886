"""Identify a checkpoint from its small files: format, arrays, and the models it may belong to. Pure."""

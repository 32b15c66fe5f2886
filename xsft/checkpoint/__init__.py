"""What lies in a checkpoint, told from its small files, and which models it can be. Pure."""

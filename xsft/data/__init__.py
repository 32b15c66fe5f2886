"""Training data: rows, tokens, prepared shards, and what the trainer makes of them."""

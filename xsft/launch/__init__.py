"""A plan is executed: decide, create once, record; a training on this machine; its data and its compilation."""

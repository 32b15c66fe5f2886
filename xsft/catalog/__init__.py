"""What is known beforehand: TPU types, models, MaxText releases, data sets, what fits. Pure: data and arithmetic."""

"""Facts known in advance: TPU types, models, releases, data sets, verdicts on memory. Pure: data and arithmetic."""

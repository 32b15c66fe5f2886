"""Facts known in advance: TPU types, models, MaxText releases, data sets, compiler verdicts on memory. Pure: data and
arithmetic.
"""

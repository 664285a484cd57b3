"""Multiple kernel learning on arrays: problems, sets of weights, steps, criteria. No kernels, views or estimators."""

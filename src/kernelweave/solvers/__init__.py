"""Solvers on arrays: they never see kernels, views or estimators."""

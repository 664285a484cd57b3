"""Criteria of kernel weights other than the optimal value of a machine."""

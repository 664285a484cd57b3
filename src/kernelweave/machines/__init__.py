"""Machines on one kernel matrix: solve, and certify."""

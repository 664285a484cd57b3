"""Benchmarks: named cases, rivals, and a command line that writes JSON. See README.md."""

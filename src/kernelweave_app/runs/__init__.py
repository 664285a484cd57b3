"""A run: from a table and settings to a fitted model and its files. The command line and the studio share it."""

"""From tables to problems and back: sources of kernel values, tasks, folds, decision values."""

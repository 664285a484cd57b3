"""What the objective and the solvers of this benchmark share."""

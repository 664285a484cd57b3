"""What is minimised over kernel weights where it is not the optimal value of a machine itself."""

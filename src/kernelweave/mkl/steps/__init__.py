"""Steps of kernel weights, one module for each."""

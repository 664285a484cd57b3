"""How kernel weights move: one module for each step."""

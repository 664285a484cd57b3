"""Rows in chunks, of any number: where they come from, and sums, cross-validation and predictions of them."""

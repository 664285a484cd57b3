"""RLS2 and margin MKL for the coefficients of explicit features, without matrices of n_samples x n_samples."""

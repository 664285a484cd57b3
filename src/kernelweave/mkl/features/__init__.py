"""RLS2 on explicit features: block coordinate descent in place of matrices of n_samples x n_samples."""

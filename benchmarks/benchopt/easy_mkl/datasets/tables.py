"""Gaussian kernels of several widths on tables that come with scikit-learn."""

import numpy as np

from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Breast cancer: 569 rows, ten kernels. Digits: even or odd, 800 rows, ten kernels."""

    name = "Tables"
    requirements = ["scikit-learn"]
    parameters = {"table": ["breast cancer", "digits"]}

    def get_data(self):
        from sklearn.datasets import load_breast_cancer, load_digits

        if self.table == "digits":
            X, digit = load_digits(return_X_y=True)
            X, y = X[:800] / 16.0, np.where(digit[:800] % 2 == 0, 1.0, -1.0)
        else:
            X, label = load_breast_cancer(return_X_y=True)
            X, y = (X - X.mean(axis=0)) / X.std(axis=0), np.where(label > 0, 1.0, -1.0)
        squared = np.maximum(np.square(X).sum(1)[:, None] + np.square(X).sum(1) - 2 * X @ X.T, 0.0)
        return {
            "gram": np.stack([np.exp(-gamma * squared) for gamma in np.geomspace(1e-3, 1.0, 10)], axis=-1),
            "y": y,
        }

"""Handwritten digits: random features of Gaussian kernels on patches of the picture."""

import numpy as np

from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Four scales on each of 16 patches of 2 x 2 pixels, 20 random cosines each: is the digit even?

    The data come with scikit-learn.
    """

    name = "Digits"
    requirements = ["scikit-learn"]

    def get_data(self):
        from sklearn.datasets import load_digits

        X, digit = load_digits(return_X_y=True)
        pictures = X.reshape(-1, 8, 8) / 16.0
        rng = np.random.default_rng(0)
        blocks = []
        for row in range(0, 8, 2):
            for column in range(0, 8, 2):
                patch = pictures[:, row : row + 2, column : column + 2].reshape(len(X), 4)
                for gamma in (0.1, 0.5, 2.0, 8.0):
                    waves = rng.normal(scale=np.sqrt(2.0 * gamma), size=(4, 20))
                    blocks.append(np.cos(patch @ waves + rng.uniform(0.0, 2.0 * np.pi, 20)))
        Z = np.asfortranarray(np.hstack(blocks))
        Z -= Z.mean(axis=0)
        Z /= np.sqrt(20.0)
        y = np.where(digit % 2 == 0, 1.0, -1.0)
        return {"Z": Z, "groups": np.arange(0, Z.shape[1] + 1, 20), "y": y - y.mean()}

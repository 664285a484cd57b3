"""Made-up groups of correlated columns."""

import numpy as np

from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Columns have correlation 0.5 with the next; 20 groups have coefficients; three parts signal to one of noise."""

    name = "Made up"
    parameters = {"rows, groups, width": [(500, 500, 10), (10_000, 50, 20)]}
    test_parameters = {"rows, groups, width": [(60, 30, 3)]}

    def get_data(self):
        rng = np.random.default_rng(0)
        Zt = rng.standard_normal((self.groups * self.width, self.rows))
        for j in range(1, len(Zt)):
            Zt[j] *= np.sqrt(0.75)
            Zt[j] += 0.5 * Zt[j - 1]
        Zt -= Zt.mean(axis=1, keepdims=True)
        signal = np.zeros(self.rows)
        for m in rng.choice(self.groups, 20, replace=False):
            signal += rng.standard_normal(self.width) @ Zt[m * self.width : (m + 1) * self.width]
        y = signal + rng.standard_normal(self.rows) * signal.std() / np.sqrt(3.0)
        return {"Z": Zt.T, "groups": np.arange(0, len(Zt) + 1, self.width), "y": y - y.mean()}

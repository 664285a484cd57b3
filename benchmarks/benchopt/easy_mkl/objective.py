"""EasyMKL: the nearest points of two classes in the sum of all kernels, from which weights of kernels follow."""

import numpy as np

from benchopt import BaseObjective


class Objective(BaseObjective):
    """min (1 - lam) gamma' Y K Y gamma + lam |gamma|^2 over probability vectors gamma on either class.

    K is the sum of kernels. A quadratic program: at any feasible gamma with gradient g the gap is at most g'gamma minus
    the least entries of g on the two classes. `error` is the largest difference of a weight of a kernel from those of a
    solution to a relative gap of 1e-12.
    """

    name = "EasyMKL"
    requirements = ["numpy", "pip::kernelweave"]
    min_benchopt_version = "1.8"
    sampling_strategy = "tolerance"
    test_dataset_name = "Tables"
    parameters = {"lam": [0.1]}

    def set_data(self, gram, y):
        import kernelweave as kw

        self.gram, self.y = gram, y
        self.total = gram.sum(axis=-1)
        self.weights = kw.solvers.solve_easy_mkl(gram, y, self.lam, tol=1e-12).weights

    def evaluate_result(self, gamma, cpu_seconds):
        gamma = np.maximum(gamma, 0.0)
        for side in (self.y > 0, self.y < 0):
            gamma[side] /= gamma[side].sum()
        signed = self.y * gamma
        half = (1.0 - self.lam) * self.y * (self.total @ signed) + self.lam * gamma
        primal = gamma @ half
        gap = 2.0 * (primal - half[self.y > 0].min() - half[self.y < 0].min()) / primal
        weights = np.einsum("i,ijm,j->m", signed, self.gram, signed, optimize=True)
        error = np.abs(weights / weights.sum() - self.weights).max()
        return {"value": gap, "gap": gap, "error": error, "cpu_seconds": cpu_seconds}

    def get_one_result(self):
        return {"gamma": np.ones(len(self.y)), "cpu_seconds": 0.0}

    def get_objective(self):
        return {"gram": self.gram, "y": self.y, "lam": self.lam}

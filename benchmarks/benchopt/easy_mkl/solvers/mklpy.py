"""MKLpy: the two solvers of its EasyMKL, LIBSVM with a ridge (its choice for this lam) and CVXOPT."""

import numpy as np
import torch
from benchmark_utils.sampling import Gap, tenth, timed
from MKLpy.arrange import summation
from MKLpy.metrics import margin

from benchopt import BaseSolver


class Solver(BaseSolver):
    """`EasyMKL.fit` keeps weights, not gamma: timed are its calls up to gamma, the sum and the margin."""

    name = "MKLpy"
    requirements = ["pip::MKLpy"]
    parameters = {"solver": ["libsvm", "cvxopt"]}
    sampling_strategy = "tolerance"
    stopping_criterion = Gap(least=1e-10)

    def set_objective(self, gram, y, lam):
        torch.set_num_threads(1)
        self.kernels = [torch.tensor(np.ascontiguousarray(K)) for K in np.moveaxis(gram, -1, 0)]
        self.labels, self.lam = torch.tensor(y), lam

    def get_next(self, stop_val):
        return tenth(stop_val)

    def run(self, stop_val):
        if stop_val > 1.0:
            self.gamma, self.seconds = np.ones(len(self.labels)), 0.0
            return
        gamma, self.seconds = timed(lambda: self._solve(stop_val))
        self.gamma = np.asarray(gamma, dtype=np.float64)

    def _solve(self, tol):
        identity = torch.diag(torch.ones(len(self.labels), dtype=torch.double))
        combined = (1 - self.lam) * summation(self.kernels) + self.lam * identity
        return margin(combined, self.labels, return_coefs=True, solver=self.solver, tol=tol)[1]

    def get_result(self):
        return {"gamma": self.gamma, "cpu_seconds": self.seconds}

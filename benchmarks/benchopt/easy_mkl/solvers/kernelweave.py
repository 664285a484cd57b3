"""kernelweave: the equivalent classifier with the squared hinge loss, by sequential minimal optimisation."""

import numpy as np
from benchmark_utils.sampling import Gap, tenth, timed

import kernelweave as kw
from benchopt import BaseSolver


class Solver(BaseSolver):
    """`tol` is the relative gap."""

    name = "kernelweave"
    requirements = ["pip::kernelweave"]
    sampling_strategy = "tolerance"
    stopping_criterion = Gap()

    def set_objective(self, gram, y, lam):
        self.gram, self.y, self.lam = gram, y, lam

    def get_next(self, stop_val):
        return tenth(stop_val)

    def run(self, stop_val):
        if stop_val > 1.0:
            self.gamma, self.seconds = np.ones(len(self.y)), 0.0
            return
        found, self.seconds = timed(
            lambda: kw.solvers.solve_easy_mkl(self.gram, self.y, self.lam, tol=stop_val)
        )
        self.gamma = np.abs(found.dual_coef)

    def get_result(self):
        return {"gamma": self.gamma, "cpu_seconds": self.seconds}

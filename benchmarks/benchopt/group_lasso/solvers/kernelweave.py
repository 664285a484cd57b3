"""kernelweave: the form with the squared sum of norms, at alpha."""

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

    def set_objective(self, Z, groups, y, alphas, multipliers):
        self.Z, self.groups, self.y, self.alphas = Z, groups, y, alphas

    def get_next(self, stop_val):
        return tenth(stop_val)

    def run(self, stop_val):
        if stop_val > 1.0:
            self.coef, self.seconds = np.zeros((len(self.alphas), self.Z.shape[1])), 0.0
            return
        path, self.seconds = timed(
            lambda: kw.rls2_path(kw.FeatureStack(self.Z, self.groups), self.y, self.alphas, tol=stop_val)
        )
        self.coef = path.feature_coef

    def get_result(self):
        return {"coef": self.coef, "cpu_seconds": self.seconds}

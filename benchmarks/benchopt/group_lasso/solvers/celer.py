"""celer: working sets with dual extrapolation, at the multipliers."""

import numpy as np
from benchmark_utils.sampling import Gap, tenth, timed
from celer.homotopy import celer_path

from benchopt import BaseSolver


class Solver(BaseSolver):
    """`tol` is on the duality gap of the lasso, relative to the loss at zero."""

    name = "celer"
    requirements = ["pip::celer"]
    sampling_strategy = "tolerance"
    stopping_criterion = Gap()

    def set_objective(self, Z, groups, y, alphas, multipliers):
        self.Z, self.groups, self.y, self.multipliers = Z, groups, y, multipliers

    def get_next(self, stop_val):
        return tenth(stop_val)

    def run(self, stop_val):
        if stop_val > 1.0:
            self.coef, self.seconds = np.zeros((len(self.multipliers), self.Z.shape[1])), 0.0
            return
        width = int(self.groups[1])
        problem, more = ("lasso", {}) if width == 1 else ("grouplasso", {"groups": width})
        found, self.seconds = timed(
            lambda: celer_path(
                self.Z, self.y, problem, alphas=self.multipliers / len(self.y), tol=stop_val, **more
            )
        )
        self.coef = found[1].T

    def get_result(self):
        return {"coef": self.coef, "cpu_seconds": self.seconds}

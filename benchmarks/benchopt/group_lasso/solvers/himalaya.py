"""himalaya: accelerated proximal gradient steps on all columns, each multiplier from the solution before."""

import numpy as np
from benchmark_utils.sampling import Gap, timed
from himalaya.lasso import solve_sparse_group_lasso
from himalaya.utils import compute_lipschitz_constants

from benchopt import BaseSolver


class Solver(BaseSolver):
    """The number of steps at each multiplier grows. himalaya learns kernel weights by another criterion; its sparse
    group lasso with no penalty on single coefficients is the problem of this benchmark.
    """

    name = "himalaya"
    requirements = ["pip::himalaya"]
    sampling_strategy = "iteration"
    stopping_criterion = Gap(least=-1.0)

    def set_objective(self, Z, groups, y, alphas, multipliers):
        self.Z, self.y, self.multipliers = Z, y, multipliers
        self.labels = np.repeat(np.arange(len(groups) - 1), np.diff(groups))

    def get_next(self, stop_val):
        return 10 if stop_val < 10 else 3 * stop_val

    def run(self, stop_val):
        if stop_val == 0:
            self.coef, self.seconds = np.zeros((len(self.multipliers), self.Z.shape[1])), 0.0
            return
        self.coef, self.seconds = timed(lambda: self._solve(stop_val))

    def _solve(self, steps):
        step = compute_lipschitz_constants(self.Z[None], kernelize="XTX")[0]
        w, coef = None, []
        for multiplier in self.multipliers:
            w = solve_sparse_group_lasso(
                self.Z,
                self.y[:, None],
                groups=self.labels,
                l21_reg=multiplier / len(self.y),
                l1_reg=0.0,
                max_iter=steps,
                tol=None,
                initial_coef=w,
                lipschitz=step,
                progress_bar=False,
            )
            coef.append(np.array(w[:, 0]))
        return np.array(coef)

    def get_result(self):
        return {"coef": self.coef, "cpu_seconds": self.seconds}

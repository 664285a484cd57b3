"""skglm: coordinate descent on working sets with Anderson acceleration, each multiplier from the solution before."""

import numpy as np
from benchmark_utils.sampling import Gap, tenth, timed
from skglm.datafits import Quadratic, QuadraticGroup
from skglm.penalties import L1, WeightedGroupL2
from skglm.solvers import AndersonCD, GroupBCD
from skglm.utils.jit_compilation import compiled_clone

from benchopt import BaseSolver


class Solver(BaseSolver):
    """`tol` is on the violation of the optimality conditions. Compilation is not timed."""

    name = "skglm"
    requirements = ["pip::skglm"]
    sampling_strategy = "tolerance"
    stopping_criterion = Gap()

    def set_objective(self, Z, groups, y, alphas, multipliers):
        self.Z, self.y, self.multipliers = np.asfortranarray(Z), y, multipliers
        self.groups = groups.astype(np.int32)

    def warm_up(self):
        self.run_once(stop_val=0.1)

    def get_next(self, stop_val):
        return tenth(stop_val)

    def run(self, stop_val):
        if stop_val > 1.0:
            self.coef, self.seconds = np.zeros((len(self.multipliers), self.Z.shape[1])), 0.0
            return
        self.coef, self.seconds = timed(lambda: self._solve(stop_val))

    def _solve(self, tol):
        index = np.arange(self.Z.shape[1], dtype=np.int32)
        if len(self.groups) == self.Z.shape[1] + 1:
            datafit, penalty = compiled_clone(Quadratic()), compiled_clone(L1(1.0))
            solver = AndersonCD(tol=tol, fit_intercept=False, warm_start=True)
        else:
            datafit = compiled_clone(QuadraticGroup(self.groups, index))
            penalty = compiled_clone(WeightedGroupL2(1.0, np.ones(len(self.groups) - 1), self.groups, index))
            solver = GroupBCD(tol=tol, fit_intercept=False, warm_start=True)
        w, fitted, coef = np.zeros(self.Z.shape[1]), np.zeros(len(self.y)), []
        for multiplier in self.multipliers:
            penalty.alpha = multiplier / len(self.y)
            w, *_ = solver.solve(self.Z, self.y, datafit, penalty, w_init=w.copy(), Xw_init=fitted)
            fitted = self.Z @ w
            coef.append(w)
        return np.array(coef)

    def get_result(self):
        return {"coef": self.coef, "cpu_seconds": self.seconds}

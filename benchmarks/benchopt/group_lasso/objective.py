"""RLS2 on blocks of features, and the group lasso that has the same solutions."""

import numpy as np
from benchmark_utils.problem import largest_multiplier, lasso_gap, norms, squared_gap

from benchopt import BaseObjective


class Objective(BaseObjective):
    """A path of `points` regularisation parameters, from the largest multiplier down to a share of it.

    min 1/2 |y - Z w|^2 + alpha/2 (sum_m |w_m|)^2 and min 1/2 |y - Z w|^2 + lam sum_m |w_m| have the same solution where
    lam = alpha sum_m |w_m| at the solution. The pairs (alpha, lam) come from a solution to a relative gap of 1e-12 that
    is not timed. Solvers take whichever form they have, and are judged by both gaps.
    """

    name = "Group lasso and RLS2"
    requirements = ["numpy", "pip::kernelweave"]
    min_benchopt_version = "1.8"
    sampling_strategy = "tolerance"
    test_dataset_name = "Made up"
    parameters = {"share": [0.05], "points": [30]}

    def set_data(self, Z, groups, y):
        import kernelweave as kw

        self.Z, self.groups, self.y = Z, groups, y
        stack = kw.FeatureStack(Z, groups)
        wanted = largest_multiplier(Z, groups, y) * np.geomspace(1.0, self.share, self.points + 1)[1:]
        # alpha falls with the multiplier: interpolate on a fine path, and take the multipliers of exact solutions
        grid = np.geomspace(1e4, 1e-6, 120) * float(stack.square_sums.max())
        path = kw.rls2_path(
            stack,
            y,
            grid,
            tol=1e-5,
            callback=lambda _, one: self._multiplier(one.alpha, one.feature_coef) < wanted[-1],
        )
        reached = [self._multiplier(one.alpha, one.feature_coef) for one in path.solutions]
        alphas = np.exp(np.interp(-np.log(wanted), -np.log(reached), np.log(path.alphas)))
        exact = kw.rls2_path(stack, y, alphas, tol=1e-12)
        self.alphas = np.asarray(exact.alphas)
        self.multipliers = np.array(
            [self._multiplier(one.alpha, one.feature_coef) for one in exact.solutions]
        )

    def _multiplier(self, alpha, w):
        return float(alpha * norms(np.asarray(w).reshape(-1), self.groups).sum())

    def evaluate_result(self, coef, cpu_seconds):
        """Largest gaps of the path; `coef` has one row for each regularisation parameter."""
        given = (self.Z, self.groups, self.y)
        gap = max(squared_gap(*given, alpha, w) for alpha, w in zip(self.alphas, coef, strict=True))
        other = max(lasso_gap(*given, lam, w) for lam, w in zip(self.multipliers, coef, strict=True))
        return {"value": gap, "gap": gap, "lasso_gap": other, "cpu_seconds": cpu_seconds}

    def get_one_result(self):
        return {"coef": np.zeros((self.points, self.Z.shape[1])), "cpu_seconds": 0.0}

    def get_objective(self):
        return {
            "Z": self.Z,
            "groups": self.groups,
            "y": self.y,
            "alphas": self.alphas,
            "multipliers": self.multipliers,
        }

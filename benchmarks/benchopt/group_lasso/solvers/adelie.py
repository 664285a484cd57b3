"""adelie: block coordinate descent with Newton steps, at the multipliers."""

import adelie as ad
import numpy as np
from benchmark_utils.sampling import Gap, timed

from benchopt import BaseSolver


class Solver(BaseSolver):
    """`tol` is on the change of the loss. Its loss is divided by the number of rows."""

    name = "adelie"
    requirements = ["pip::adelie"]
    sampling_strategy = "tolerance"
    stopping_criterion = Gap(least=1e-15)

    def set_objective(self, Z, groups, y, alphas, multipliers):
        self.Z, self.groups, self.y, self.multipliers = Z, groups, y, multipliers

    def get_next(self, stop_val):
        return 1e-5 if stop_val > 1.0 else stop_val / 10.0

    def run(self, stop_val):
        if stop_val > 1.0:
            self.coef, self.seconds = np.zeros((len(self.multipliers), self.Z.shape[1])), 0.0
            return
        state, self.seconds = timed(lambda: self._solve(stop_val))
        self.coef = state.betas.toarray()

    def _solve(self, tol):
        return ad.grpnet(
            X=ad.matrix.dense(self.Z, method="naive", n_threads=1),
            glm=ad.glm.gaussian(y=self.y, dtype=np.float64),
            groups=self.groups[:-1],
            penalty=np.ones(len(self.groups) - 1),
            lmda_path=self.multipliers / len(self.y),
            intercept=False,
            early_exit=False,
            progress_bar=False,
            tol=tol,
            n_threads=1,
        )

    def get_result(self):
        return {"coef": self.coef, "cpu_seconds": self.seconds}

"""MLMKL by the squared error of probabilities: a reading of its equation (15) that is not in the paper, for study.

The paper calls f(x_j) in (15) the posterior probability of x_j, and differentiates the decision value. Here a sigmoid
stands between the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from kernelweave._parameters import OneOf
from kernelweave.fitting.calibration import calibrate, platt_targets
from kernelweave.learners import MLMKL
from kernelweave.learners.solving import Output
from kernelweave.mkl.criteria.deep import TrainingError

Array = NDArray[np.float64]

LINKS = ("platt", "logistic")


class PosteriorMLMKL(MLMKL):
    """MLMKL by the squared error between probabilities of the training rows and targets 0 and 1; not in the paper.

    Minimises ``1 / (2 n) sum_i (p_i - t_i)^2`` with ``p_i = 1 / (1 + exp(A f(x_i) + B))``; classification only.

    Parameters
    ----------
    link
        A and B by Platt's maximum likelihood on the training rows, again after every step, or the logistic function
        of the decision value (A = -1, B = 0).
    """

    step = "fixed"
    regression = False

    link: Annotated[str, OneOf(*LINKS)] = "platt"

    def _criterion(self, output: Output, rows: np.ndarray) -> TrainingError:
        return PosteriorError(output.machine, rows, loss=self._measure(output), fitted=self.link == "platt")


@dataclass
class PosteriorError(TrainingError):
    """Mean loss of probabilities on the training rows, by decision values at fixed coefficients of the machine.

    The derivative by a decision value is exact: ``-A p (1 - p)`` times that of the loss, and what goes through A and B,
    which are the optimum of the likelihood and move with every decision value.

    Attributes
    ----------
    fitted : bool
        Platt's A and B; otherwise -1 and 0.

    References
    ----------
    J. Platt, Probabilistic outputs for support vector machines, 1999.
    """

    fitted: bool = field(default=True, kw_only=True)

    def error(self, y: Array, f: Array, share: Array) -> tuple[float, Array]:
        """The mean loss of the probabilities, and its derivative by the decision values."""
        right, weights = y > 0, share * len(y)
        a, c = 1.0, 0.0
        if self.fitted:
            a, c = calibrate(f[:, None], right.astype(np.intp), weights, "platt").curves[0]
        p = expit(a * f + c)
        value, by_p = super().error(right.astype(float), p, share)
        by_argument = by_p * p * (1.0 - p)
        slope = a * by_argument
        if self.fitted:
            # a and c solve rows @ (weights * (p - targets)) = 0
            rows, spread = np.stack([f, np.ones_like(f)]), weights * p * (1.0 - p)
            through = np.linalg.lstsq((rows * spread) @ rows.T, rows @ by_argument, rcond=None)[0]
            slope -= through[0] * weights * (p - platt_targets(right, weights)) + a * spread * (
                through @ rows
            )
        return value, slope

"""RLS2 on kernels in a metric that is learnt from the targets."""

from __future__ import annotations

from typing import Annotated

from kernelweave._checks import InputError
from kernelweave._parameters import OneOf, Shown
from kernelweave.kernels import Metric, Precomputed
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.composed import cells_read, parts_of, steps_of
from kernelweave.learners.rls2 import RLS2, Relax
from kernelweave.mkl.metric import FORMS, METRICS


class MetricRLS2(RLS2):
    """Two-layer regularised least squares on kernels in a learnt metric of the columns.

    In each view a map L of the columns is learnt from the targets, see `kernelweave.kernels.Metric`. Then RLS2 solves

        1/2 sum_i w_i (y_i - b - f_i)^2 + alpha/2 c' K(d) c ,   f = K(d) c ,   K(d) = sum_m d_m s_m K_m ,

    over weights ``d`` on the simplex and coefficients ``c``, with kernels ``K_m`` of the rows ``L x``. Where kernels
    are left out, these are linear, Gaussian and Laplacian ones, and with "ard" the same without the metric; kernels of
    one's own are taken in the metric after their own steps, except those of texts and given matrices.

    Certificates are those of this problem, at the metric that was found. The metric is a local solution. On folds, and
    in intervals that rest on them, it is learnt from the rows of the fold.

    Parameters
    ----------
    by
        How the metric is learnt: "ard", the evidence of a Gaussian process with a rate for each column, or "rfm", a
        recursive feature machine.
    form
        A factor for each column, or, with "rfm", combinations of columns.
    relax
        A separate regularisation parameter for the function, as in `RLS2`; "auto" chooses it together with `alpha`.

    References
    ----------
    A. Radhakrishnan, D. Beaglehole, P. Pandit and M. Belkin, Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models, Science 383 (2024), for "rfm". C. E. Rasmussen and C. K. I. Williams,
    Gaussian Processes for Machine Learning (2006), section 5.1, for "ard".

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> model = kw.MKLRegressor(learner="metric").fit(X, np.sin(2 * X[:, 1]))
    >>> round(model.relevance_["all"]["x1"], 2), model.rel_gap_ < 1e-6
    (1.0, True)
    """

    name = "metric"
    question = "columns"
    certificate = "At the metric, a local solution, the objective is at most the gap above its optimum."

    by: Annotated[str, OneOf(*METRICS), Shown("Metric learnt by")] = "ard"
    form: Annotated[str, OneOf(*FORMS), Shown("Form of the metric")] = "diagonal"
    relax: Relax = "auto"

    def check(self) -> None:
        super().check()
        if (self.by, self.form) == ("ard", "full"):
            raise InputError(
                "A full metric is learnt by 'rfm', got by='ard'. Use by='rfm', or form='diagonal'."
            )

    @property
    def column_step(self) -> Metric:
        return Metric(by=self.by, form=self.form)

    def prepared(self, kernel: Kernel) -> Kernel:
        if any(isinstance(one, Metric) for one in steps_of(kernel)):
            return kernel
        if cells_read(kernel) or any(isinstance(leaf, Precomputed) for leaf, *_ in parts_of(kernel)):
            return kernel
        return kernel.prepared(self.column_step)

"""RLS2 with a nonlinear second layer."""

from __future__ import annotations

from typing import Annotated

from kernelweave._parameters import MaxIter, Number, OneOf, Shown, Whole
from kernelweave.kernels import RBF, Kernel, Linear, Polynomial
from kernelweave.learners.solving import LossName, MarginLearner, Output
from kernelweave.mkl.deep import FINAL_TOL
from kernelweave.mkl.layers import DeepSolution
from kernelweave.mkl.second_layer import solve_second_layer
from kernelweave.mkl.solve import solve_problem

__all__ = ["NonlinearRLS2"]

SECOND = ("rbf", "polynomial", "linear")


class NonlinearRLS2(MarginLearner):
    """RLS2 with a nonlinear second layer: a machine on the outputs of one learnt function for each kernel.

    Minimises over functions ``f1_m`` in the space of ``s_m K_m``, and ``f2`` in that of a kernel K2 on their m values,

        1/2 ||f2||^2 + C sum_i w_i loss(y_i, f2(f1(x_i)) + b)    subject to   sum_m ||f1_m||^2 <= radius^2 .

    By the representer theorem both layers are sums over the training rows. For a given first layer the second is an
    ordinary machine, solved and certified; the first descends the optimal value of this machine, from the two layers
    of the linear solution (RLS2's with ``alpha = 1 / C``, for the squared loss). The objective never rises. It is not
    convex, and the solution is local; with ``second="linear"`` it is RLS2's.

    Parameters
    ----------
    C
        Weight of the loss > 0.
    second
        Kernel K2 of the second layer, on outputs z: ``exp(-||z - z'||^2 / 2)``, ``(z'z' + 1)^degree``, or ``z'z'``.
    degree
        Degree of the polynomial.
    radius
        > 0; of the ball of the first layer. It determines how nonlinear the second layer is: widths of Gaussians and
        constants of polynomials are in its unit, so that they need no parameter of their own. With a small radius
        (and a large C) a Gaussian is nearly linear. A linear second layer depends only on ``C radius^2``.
    loss
        Loss of the machine, "squared" as in RLS2. "auto": the hinge for classes, epsilon-insensitive for regression.
    tol
        Relative decrease of the objective at which to stop.
    max_iter
        Steps of the first layer; default 100.

    Notes
    -----
    Each step costs a machine, O(n_kernels n_samples^2), and a product with every kernel. Fitted weights are the shares
    of the squared norm of the first layer, which are RLS2's weights in the linear case. Both norms must be limited:
    without the ball a Gaussian second layer separates all rows at no cost. Kernels without weight have no derivative;
    at the start all get a small output if this lowers the objective.

    References
    ----------
    F. Dinuzzo, Kernel machines with two layers and multiple kernel learning, arXiv 1001.2709 (2010), Problem 1 and
    Theorem 1; the paper gives no algorithm.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> learner = kw.learners.NonlinearRLS2(C=10.0)
    >>> model = kw.MKLClassifier(kw.banks.linear_features(2), learner).fit(X, X[:, 0] * X[:, 1] > 0)
    >>> model.score(X, X[:, 0] * X[:, 1] > 0) > 0.9
    True
    """

    name = "rls2-nonlinear"
    question = "deep"
    iterates = True
    certificate = (
        "The first layer is a local solution: the objective is not convex. The gap certifies the machine on its "
        "outputs: its objective is at most the gap above its optimum."
    )

    second: Annotated[str, OneOf(*SECOND), Shown("Kernel of the second layer")] = "rbf"
    degree: Annotated[int, Whole(1, 20), Shown("Degree of the polynomial")] = 2
    radius: Annotated[float, Number(above=0), Shown("Radius of the first layer")] = 1.0
    loss: LossName = "squared"
    tol = 1e-4
    max_iter: MaxIter = None

    def _second(self) -> Kernel:
        kernels = {"rbf": RBF(gamma=0.5), "polynomial": Polynomial(degree=self.degree), "linear": Linear()}
        return kernels[self.second]

    def layer_names(self) -> list[list[str]]:
        """The kernel of the second layer."""
        return [[self._second().label.removesuffix(" on all")]]

    def learn(self, output: Output) -> DeepSolution:
        # the linear problem that is nearest where outputs are small
        slope = float(self.degree) if self.second == "polynomial" else 1.0
        near = output.problem.at(output.machine.C * slope * float(self.radius) ** 2)
        linear = solve_problem(near, "auto", tol=FINAL_TOL)
        report = output.training.report
        return solve_second_layer(
            output.gram,
            output.problem.scale,
            output.machine,
            self._second().layer(),
            linear,
            radius=float(self.radius),
            tol=float(self.tol),
            max_iter=100 if self.max_iter is None else self.max_iter,
            callback=None
            if report is None
            else lambda step, value: report(f"step {step}: criterion {value:.4g}"),
        )

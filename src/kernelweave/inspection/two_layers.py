"""A weighted sum of kernels, or RLS2 with a nonlinear second layer, as a machine with two layers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kernelweave._checks import InputError
from kernelweave._forms import ShortRepr
from kernelweave._parameters import checked
from kernelweave._types import Array, Features
from kernelweave.fitting.prediction import NewRows
from kernelweave.fitting.stacks import GivenSource
from kernelweave.fitting.task import problems_of
from kernelweave.inspection.arguments import Model, Names, Output, decision_names, which_output
from kernelweave.mkl.layers import TrainedLayers

__all__ = ["TwoLayers", "two_layers"]


@dataclass(frozen=True)
class TwoLayers(ShortRepr):
    """A machine with two layers, ``f(x) = f2(f1(x)) + intercept``: a weighted sum of kernels, or `NonlinearRLS2`.

    Attributes
    ----------
    names : array of str, shape (n_kernels,)
        Labels of the kernels of the first layer.
    weights : array of shape (n_kernels,)
        d of the combined kernel ``sum_i d_i s_i K_i``; shares of ``||f1||^2`` with a nonlinear second layer.
    scale : array of shape (n_kernels,)
        s, the factors of the normaliser: the diagonal of the second layer's kernel ``z'Sz'``.
    beta : array of shape (n_kernels,) or None
        Coefficients of the second layer, ``sqrt(d_i / s_i)``. Their signs are free; all are taken positive. None for
        a nonlinear second layer, ``f2(z) = sum_j b_j K2(f1(x_j), z)``.
    first : array of shape (n_rows, n_kernels)
        f1 of the rows, ``f1_i(x) = s_i beta_i sum_j c_j K_i(x_j, x)``; 0 where d_i = 0.
    first_norm2 : float
        ``||f1||^2 = c'K(d)c``, the term multiplied by the regularisation parameter; at most the squared radius with a
        nonlinear second layer.
    second_norm2 : float
        ``||f2||^2 = beta'S beta = sum_i d_i``: 1 on the simplex. ``b'K2 b`` for a nonlinear second layer.
    output : str
        Which class or output.
    upper : TrainedLayers or None
        A nonlinear second layer, with the outputs of the training rows.
    dual_coef : array of shape (n_samples,) or None
        Its coefficients b.
    """

    names: Names
    weights: Array
    scale: Array
    beta: Array | None
    first: Array
    first_norm2: float
    second_norm2: float
    output: str
    upper: TrainedLayers | None = field(default=None, repr=False)
    dual_coef: Array | None = field(default=None, repr=False)

    def second(self, z: ArrayLike) -> Array:
        """The second layer at outputs of the first, ``f2(z) = z'S beta`` if it is linear.

        Parameters
        ----------
        z : array of shape (n_rows, n_kernels)
            Outputs of the first layer, a row for each sample.

        Returns
        -------
        array of shape (n_rows,)
        """
        values = np.asarray(z, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self.scale):
            raise InputError(f"`z` must have shape (n_rows, {len(self.scale)}), got {values.shape}.")
        if self.upper is not None and self.upper.first is not None:
            return self.upper.cross(*self.upper.first.inner(values)) @ self.dual_coef
        assert self.beta is not None
        return values @ (self.scale * self.beta)


@checked
def two_layers(estimator: Model, X: Features, *, output: Output = None) -> TwoLayers:
    """The two layers of a fitted model, after the representer theorem of the RLS2 paper (Theorems 1 and 2).

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
        With a weighted sum of kernels, or the learner `NonlinearRLS2`.
    X : array-like, frame, sparse matrix or views
        Rows at which the first layer is evaluated, as `predict` takes them.
    output : str or int, optional
        Class or output of a model with several; default the first.

    Returns
    -------
    TwoLayers

    Raises
    ------
    InputError
        The model has layers of kernels on kernels.

    Notes
    -----
    Computes the training kernels again, as `fit` did, for the norm of the first layer.

    References
    ----------
    F. Dinuzzo, Kernel machines with two layers and multiple kernel learning, arXiv:1001.2709: (1), (2), Theorems 1, 2.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> model = kw.MKLRegressor(kw.banks.linear_features(3), kw.learners.RLS2(alpha=0.1)).fit(X, X[:, 0] - X[:, 1])
    >>> layers = kw.inspection.two_layers(model, X)
    >>> layers.first.shape, round(layers.second_norm2, 9)
    ((40, 3), 1.0)
    >>> bool(np.allclose(layers.second(layers.first) + model.intercept_, model.predict(X)))
    True
    """
    check_is_fitted(estimator)
    model = estimator.model_
    if any(one is not None and one.first is None for one in model.layers):
        raise InputError(
            "This model has layers of kernels on kernels; `two_layers` is for weighted sums of kernels, as of RLS2 or "
            "SimpleMKL, and for NonlinearRLS2. For deep kernels see `layer_weights`."
        )
    n_outputs = model.dual_coef.shape[1]
    outputs = decision_names(estimator) if n_outputs > 1 else ("",)
    which = which_output(outputs, output)
    owner = model.owner[which]
    scale = estimator.normalizers_[owner].scale
    weights = model.weights_of(which)[0]
    if model.layers and (upper := model.layers[which]) is not None and (first := upper.first) is not None:
        b, source = model.dual_coef[:, which], model.source
        queries = (
            source.read_queries(X, estimator.n_features_in_)
            if isinstance(source, GivenSource)
            else model.encode(X)
        )
        return TwoLayers(
            names=estimator.kernel_names_,
            weights=weights,
            scale=scale,
            beta=None,
            first=NewRows(source, queries, model.normalizers[0]).outputs(first),
            first_norm2=float(np.sum(first.coef * first.values / scale)),
            second_norm2=float(b @ upper.cross(*first.inner(first.values)) @ b),
            output=outputs[which],
            upper=upper,
            dual_coef=b,
        )
    parts = estimator.kernel_contributions(X)
    parts = parts[:, :, which] if parts.ndim == 3 else parts
    root = np.sqrt(weights * scale)
    problem = problems_of(model.task)[owner]
    q = problem.gram.quadratic_forms(model.dual_coef[:, which][None])
    return TwoLayers(
        names=estimator.kernel_names_,
        weights=weights,
        scale=scale,
        beta=np.sqrt(weights / scale),
        first=np.divide(parts, root, out=np.zeros_like(parts), where=root > 0),
        first_norm2=float((weights * scale) @ q),
        second_norm2=float(weights.sum()),
        output=outputs[which],
    )

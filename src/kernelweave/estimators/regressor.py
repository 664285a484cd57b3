"""Regression with learnt kernel weights."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array

from kernelweave._callbacks import with_callbacks
from kernelweave._checks import InputError, as_floats, check_finite, check_size
from kernelweave._parameters import Flag, Number, OneOf, checked
from kernelweave._threads import blas_threads_for
from kernelweave.estimators.base import BaseMKL
from kernelweave.estimators.labels import column_names
from kernelweave.estimators.missing import CELLS, MISSING_VIEWS, target_in_order
from kernelweave.estimators.routes import Approximation
from kernelweave.fitting.model import Model
from kernelweave.fitting.task import Solved
from kernelweave.kernels.stationary import Width
from kernelweave.mkl.ridge_problem import make_problem
from kernelweave.mkl.selection import compute_criteria

__all__ = ["MKLRegressor"]

Array = NDArray[np.float64]


class MKLRegressor(RegressorMixin, BaseMKL):
    """Regression with learnt kernel weights.

    With ``learner="rls2"`` minimises over weights d on the simplex and coefficients c

        1/2 sum_i w_i (y_i - b - f_i)^2 + alpha/2 c' K(d) c ,   f = K(d) c ,   K(d) = sum_m d_m s_m K_m .

    Parameters
    ----------
    kernels : list of kernels, KernelBank, "precomputed" or None, default=None
        None takes kernels by what the training rows hold, and leaves out those that are noise, see
        `kernelweave.banks.default` and `explain_defaults`; `kernelweave.banks.views` does so for groups of columns.
        With a `KernelBank` X is one column of sample indices; with "precomputed" X has shape (n_rows, n_train,
        n_kernels). With several views a list is used for each of them, and a dict gives the kernels of each.
    learner : str, Learner or None, default=None
        How the weights are found; its parameters can be set as ``learner__alpha``. None is "rls2". If
        kernels were left out too, it has ``relax="auto"``, and is "lp" if there is a `C`.
    C : float or "auto", optional
        Regularisation parameter of learners with a C, such as "simple", in place of the learner's own; larger fits the
        data more.
    alpha : float or "auto", optional
        Regularisation parameter of "rls2", in place of the learner's own; larger fits the data less.
    gamma : float, "median", "scale" or pair, optional
        Width of the Gaussian and Laplacian kernels, as that of `kernelweave.kernels.RBF`. In a list of kernels all of
        them have it in place of their own, and kernels that become equal are one; the default bank has each of its
        kernels at a quarter of it, at it and at four times it.
    normalize : str, Normalizer or None, default="auto"
        "auto" is "center" for kernels that were left out, "mean-diagonal" for others. The rest: "mean-diagonal",
        "trace", "norm", "cosine", "center", "within-class" (classification only), an object, or None. Statistics are
        weighted, computed in `fit` and stored.
    standardize : bool or "auto", default="auto"
        Shift and scale numeric columns to weighted mean 0 and variance 1 before all kernels. "auto" leaves columns as
        they are: the kernels of a plain fit bring their own preparation. Sparse rows cannot be standardised.
    fit_intercept : bool, default=True
        Use the weighted mean of y as intercept b (it is fixed beforehand, as in the paper); otherwise 0.
    max_memory : float, str or "auto", default="auto"
        Bytes (or "2GB") for the training kernels; above it, kernels that are not low rank are recomputed in tiles. See
        the user guide ("How Gram matrices are stored").
        "auto" is a quarter of the physical memory.
    rank_tol : float, default=0.0
        Kernels are stored as low-rank factors (pivoted Cholesky) with a residual of at most this share of the trace.
        With 0 factors are equal to the kernel up to rounding; a larger value saves time and memory, and the residual
        enters the certificate.
    approximation : str, map of features or None, default="auto"
        None: kernels are exact. "nystroem", "random-features", or a map with its number of features, such as
        ``kernels.Nystroem(200, random_state=1)``, see `kernelweave.kernels.approximate`: kernels without few features
        of their own get those of the map. "auto": exact kernels for up to 5,000 rows, and for up to 20,000 where they
        fit `max_memory`; with more, and a learner that solves on features ("rls2" and most margin methods), Nystroem
        features. From 1,000 rows on these learners solve on the features that kernels have by themselves, where these
        are cheaper, with the same solution. `gram_` says what was done.
    views : dict of str to columns, or str, optional
        Views of one table: names, patterns such as ``"g_*"``, positions or slices for each, or the path of a GMT or
        TOML file of such groups. They may overlap; other columns are left out.
    missing : str or `kernelweave.kernels.Impute`, default="error"
        Treatment of missing cells (None, NaN, null):

        - "error": an error with columns and counts, unless the steps of all kernels define a treatment;
        - "impute": numbers are filled with the mean of their column, categories with the most frequent one;
        - "impute-median": with the median, and kernels use additional columns of 0 and 1 that mark missing cells;
        - "impute-nearest": with the mean over the five nearest training rows;
        - "skip": kernels compare rows in the columns that both have, see `kernelweave.kernels.Skip`.

        All statistics are those of the training rows, separately in every fold.
    missing_views : {"complete", "renormalize", "error"}, default="complete"
        Treatment of rows without any cell of a view, in `fit` and among new rows. "complete": kernels of the
        view are predicted from those of the other views; "renormalize": for each pair of rows, shared views replace
        missing ones; "error": such rows are treated as rows with missing cells. Views are those of X, those of `views`,
        and the named groups of columns of kernels.

    Attributes
    ----------
    weights_ : array of shape (n_kernels,) or (n_outputs, n_kernels)
        In the units of the kernels after normalisation; on the simplex for most learners. Learners of
        several layers have (n_layers, n_kernels) or (n_outputs, n_layers, n_kernels), NaN if a layer has fewer
        kernels than another (the two-layer learner "2lmkl" has base weights only).
    dual_coef_ : array of shape (n_samples,) or (n_samples, n_outputs)
        Over the rows with a positive weight: ``f = K @ dual_coef_ + intercept_``.
    intercept_ : float or array of shape (n_outputs,)
    coef_ : array of shape (n_features,) or (n_outputs, n_features)
        Only if every kernel is linear: coefficients for X as given.
    output_names_ : array of str, shape (n_outputs,)
        Only with several outputs: the columns of a frame as y, or "output 0", "output 1" and so on.
    linear_intercept_ : float or array of shape (n_outputs,)
        With `coef_`: ``X @ coef_ + linear_intercept_`` is the prediction. Differs from `intercept_` if columns are
        standardised or kernels are centred.
    feature_importances_ : array of shape (n_features,)
        Shares of the columns in the weights of kernels, not with precomputed kernels.
    alpha_ : float
        The regularisation parameter of the model.
    relax_ : float
        Only with ``RLS2(relax=...)``: the regularisation parameter of the function, while `alpha_` is that of the
        weights.
    ridge_gap_, ridge_rel_gap_ : float
        Only with `relax_`: bound of the distance of the function's objective from its minimum at these weights, as a
        value and as a share; `gap_` refers to the weights.
    kernels_ : list of kernels
        With their statistics of the training rows; not with precomputed kernels.
    kernel_names_ : array of str, shape (n_kernels,)
    layer_kernel_names_ : list of arrays of str
        Names of the kernels of every layer; the first are `kernel_names_`, and there are more with deep kernels.
    normalizers_ : list of FittedNormalizer
    support_ : array of int
        Rows with a nonzero dual coefficient.
    objective_, gap_, rel_gap_ : float
        Certificate: the objective is at most `gap_` above the optimum. If weights are a local solution (deep
        kernels, "kl-c"), these are numbers of the machine on the learnt kernel, not of the weights.
    stationarity_ : float or array of shape (n_outputs,)
        Only if weights are a local solution: their distance from a stationary point.
    status_ : str
    n_iter_ : int
    history_ : list of dict
        One for each output with separate weights. Deep kernels: "criterion" and "weights" (all layers in a row), and
        with validation rows "validation" and "validation_error", the start included; see
        `kernelweave.inspection.descent`.
    gram_ : str
        Representation of the training kernels.
    feature_coef_ : array of shape (n_features,) or (n_features, n_outputs)
        Only of models on explicit features, see `approximation`: coefficients of the normalised features of all
        kernels in their order, so that a prediction is ``intercept_`` plus the sum of features times these.
    approximation_ : dict
        Only with approximate kernels. "maps", "left_out", "left_out_bound": by the names of kernels the map, what it
        leaves out and a bound of that, see `kernelweave.kernels.LeftOut`. With "rls2" also gaps in the problem of the
        kernels themselves, as shares of the objective: "true_gap_bound", which the gap of the fitted function does not
        exceed, of Nystroem features (else None); "true_gap", an estimate from "n_rows" rows, of Nystroem features of a
        smaller bound, of random ones of the gap of the weights and dual coefficients with the kernels themselves; and
        its standard error, "true_gap_error", 0 where all rows were used. `gap_` is that of the approximate problem.
    uninformative_kernels_ : list of (str, str)
        Names of kernels without information about new rows, each with "identity" (on the training rows, before
        normalisation, no row is similar to another) or "constant". There is a `KernelWarning` if most of the weight
        is on the first kind.
    alphas_, cv_results_, best_index_, best_score_
        Of the choice of alpha, if it was "auto"; see `MKLRegressorCV`.
    noise_variance_, prior_scale_ : arrays of shape (n_outputs,)
        Of the Gaussian-process reading: noise variance ``alpha tau^2`` and prior scale ``tau^2``, by maximum
        likelihood for the learnt kernel.
    log_marginal_likelihood_ : float
    missing_ : dict
        For kernels on columns: missing cells of the training rows and their treatment. "n_rows", "cells" (name of
        column to count), "views" (name to number of rows without it), "cells_done" and "views_done" in words, and
        "residuals" (name of kernel to the change by setting its negative eigenvalues to zero, as a share of the matrix
        in the Frobenius norm). `kernelweave.inspection.missing` describes it in sentences.
    n_features_in_, feature_names_in_

    References
    ----------
    F. Dinuzzo, Kernel machines with two layers and multiple kernel learning, arXiv 1001.2709.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> y = np.sin(2 * X[:, 1])
    >>> model = kw.MKLRegressor().fit(X, y)
    >>> bool(model.score(X, y) > 0.9 and model.rel_gap_ < 1e-6)
    True
    """

    def __init__(
        self,
        kernels: Any = None,
        learner: Any = None,
        *,
        C: Annotated[float | str | None, OneOf("auto") | Number(above=0) | None] = None,
        alpha: Annotated[float | str | None, OneOf("auto") | Number(above=0, infinite=True) | None] = None,
        gamma: Annotated[Any, Width() | None] = None,
        normalize: Any = "auto",
        standardize: Annotated[bool | str, Flag() | OneOf("auto")] = "auto",
        fit_intercept: Annotated[bool, Flag()] = True,
        max_memory: float | str = "auto",
        rank_tol: Annotated[float, Number(least=0, below=1)] = 0.0,
        approximation: Annotated[Any, Approximation()] = "auto",
        views: Any = None,
        missing: Annotated[Any, CELLS] = "error",
        missing_views: Annotated[str, OneOf(*MISSING_VIEWS)] = "complete",
    ) -> None:
        self.kernels = kernels
        self.learner = learner
        self.C = C
        self.alpha = alpha
        self.gamma = gamma
        self.normalize = normalize
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.max_memory = max_memory
        self.rank_tol = rank_tol
        self.approximation = approximation
        self.views = views
        self.missing = missing
        self.missing_views = missing_views

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> MKLRegressor:
        """Learn weights and coefficients.

        Parameters
        ----------
        X : array-like, SciPy sparse matrix or data frame of shape (n_samples, n_features), or several of them
            Several views as a dict, a list or `kernelweave.Views`. Or sample indices / a kernel stack, see `kernels`.
            Text and categorical columns of frames are encoded.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional
            A weight is equivalent to repetitions of the row; rows of weight 0 are dropped.

        Returns
        -------
        self
        """
        self._fit_anew(lambda: self._fit(X, y, sample_weight, {}))
        return self

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None, params: dict[str, Any]) -> None:
        y = target_in_order(X, y, self.missing_views)
        rows, encoder, n_rows = self._read_rows(X, y)
        try:
            given = check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, input_name="y")
        except (TypeError, ValueError) as error:
            raise InputError(
                f"`y` must hold one number, or a row of numbers, for every row: {error}"
            ) from error
        if given.dtype.kind in "US":
            raise InputError(
                "`y` must be numeric for regression, got text. Encode it as numbers, or use MKLClassifier."
            )
        targets = as_floats(given, "y")
        check_finite(targets, "y")
        check_size(targets, "y")
        if len(targets) != n_rows:
            raise InputError(
                f"Found input variables with inconsistent numbers of samples: [{n_rows}, {len(targets)}]. `X` and "
                "`y` must have equally many rows."
            )
        labels = targets.reshape(n_rows, -1)
        if labels.shape[1] > 1:
            self.output_names_ = np.array(column_names(y, labels.shape[1], "output"), dtype=object)
        weights = self._check_sample_weight(sample_weight, n_rows)
        self._fit_task(X, y, rows, encoder, [labels], labels, weights, params, flat=targets.ndim == 1)

    def _store_bayes(self, model: Model, solved: list[Solved]) -> None:
        task, setup = model.task, solved[0].setup
        n_eff = float(task.source.n_samples if task.sample_weight is None else task.sample_weight.sum())
        quad = np.einsum("it,it->t", setup.y, model.dual_coef)  # y' (K + alpha N)^-1 y for each output
        self.prior_scale_ = np.maximum(quad, 0.0) / n_eff
        noise = []
        total = 0.0
        for k in range(setup.y.shape[1]):
            problem, _ = make_problem(setup.gram, setup.y[:, k], task.sample_weight, setup.normalizer.scale)
            with blas_threads_for(task.source.n_samples):
                found = compute_criteria(
                    problem, model.ridge, model.weights_of(k)[0], model.dual_coef[:, k][None], total=False
                )
            noise.append(found.noise_variance)
            total += found.evidence
        self.noise_variance_ = np.array(noise)  # alpha tau^2, which is finite at alpha = inf
        self.log_marginal_likelihood_ = total

    @checked
    def predict(self, X: Any, return_std: Annotated[bool, Flag()] = False) -> Array | tuple[Array, Array]:
        """Predict the target.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        return_std : bool, default=False
            Also return the posterior standard deviation of f under the Gaussian-process reading of the model:
            prior covariance ``prior_scale_ * K(d)``, independent noise of variance ``noise_variance_``. Add
            ``noise_variance_`` to its square for new observations. The learnt weights are treated as known.

        Returns
        -------
        y : array of shape (n_rows,) or (n_rows, n_outputs)
        std : array of the same shape
            Only with `return_std`.

        References
        ----------
        P1, section 4.1.
        """
        mean = self._decide(X)
        model = self.model_
        if not return_std:
            return mean[:, 0] if model.flat else mean
        if not hasattr(self, "prior_scale_"):
            raise InputError(
                "`return_std` needs a learner that is the mean of a Gaussian process: learner='rls2', not "
                f"{type(model.learner).__name__}."
            )
        std = model.posterior_std(self._read_queries(X), self.prior_scale_)
        return (mean[:, 0], std[:, 0]) if model.flat else (mean, std)

"""A fitted model as a value: its parameters, training data and predictions."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from kernelweave._threads import blas_threads_for
from kernelweave.fitting.calibration import Calibration, calibrate
from kernelweave.fitting.out_of_fold import OutOfFold
from kernelweave.fitting.prediction import Expansions, FeatureForm, NewRows, Products
from kernelweave.fitting.source import Source, TableSource
from kernelweave.fitting.task import SolvedProblem, Task
from kernelweave.gram import FeatureGram
from kernelweave.learners import Learner
from kernelweave.machines.ridge import DenseSystem
from kernelweave.mkl.layers import TrainedLayers
from kernelweave.normalizers import FittedNormalizer
from kernelweave.views import Table, TableEncoder, ViewsEncoder

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


def fractions_of(weights: Array, axis: int = 0) -> Array:
    """Weights divided by their sum over the kernels: what is shown of weights, whatever scale the solver gives them."""
    total = weights.sum(axis=axis, keepdims=True)
    return weights / np.where(total > 0, total, 1.0)


#: Beginnings of the labels of single kernels.
_KERNEL = r"[A-Z]\w*(?:\([^()]*\))?"


def view_in(label: str) -> str:
    """The view part of the label of a kernel."""
    named = re.fullmatch(rf"(.+): {_KERNEL}", label) or re.fullmatch(rf"{_KERNEL} on (.+)", label)
    if named:
        return named[1]
    head, separator, _ = label.partition(": ")
    if separator and "(" not in head:
        return head
    return label.rpartition(" on ")[2] if " on " in label else label


@dataclass(frozen=True, eq=False)
class LinearForm:
    """A model of linear kernels as a function of the columns: ``X @ coef.T + intercept``.

    Attributes
    ----------
    coef : array of shape (n_outputs, n_columns)
        For rows before standardisation.
    intercept : array of shape (n_outputs,)
    """

    coef: Array
    intercept: Array


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted model: ``f(x) = sum_m d_m s_m k_m(x, X) @ dual_coef + intercept``, or layers of kernels on that sum.

    Attributes
    ----------
    task : Task
        The fitted task: training rows, targets, weights of rows, the rule of the normaliser.
    learner : Learner
        With the parameters of the fit; chosen parameters are fixed.
    alpha : float
        The regularisation parameter at which weights were learnt.
    ridge : float
        The regularisation parameter at which coefficients were computed: `alpha`, unless it was relaxed.
    normalizers : tuple of FittedNormalizer
        One for each problem of the task.
    weights : array of shape (n_kernels,) or (n_outputs, n_kernels)
        d, in the units of the kernels after normalisation; one row for each output with separate weights.
    dual_coef : array of shape (n_samples, n_outputs)
    intercept : array of shape (n_outputs,)
    owner : array of int, shape (n_outputs,)
        The problem of every output.
    layers : tuple of TrainedLayers or None
        Upper layers, one for each output; None for an output without a machine, empty without layers.
    layered : bool
        Whether the weights of these layers were learnt too, or chosen as weights.
    encoder : TableEncoder, ViewsEncoder or None
        Makes tables of rows, if kernels have columns.
    features : FeatureForm or None
        The model as a function of the features of its kernels, if it was fitted on these, or its rows are gone.
    linear_form : LinearForm or None
        `linear` of a model whose training rows are gone.
    held : OutOfFold or None
        What the folds that chose the regularisation parameter said of the training rows, without `shift`.
    shift : array of shape (n_outputs,) or None
        What `intercept` holds for the decision that a score asks for; probabilities are those without it.
    offset : array of shape (n_outputs,) or None
        What `intercept` and `held` hold so that probabilities have the shares of the classes, see `best_offsets`.
    constant : array of bool, shape (n_outputs,), or None
        `constant_outputs` of a model whose training rows are gone.
    """

    task: Task
    learner: Learner
    alpha: float
    ridge: float
    normalizers: tuple[FittedNormalizer, ...]
    weights: Array
    dual_coef: Array
    intercept: Array
    owner: Rows
    layers: tuple[TrainedLayers | None, ...] = ()
    layered: bool = False
    encoder: TableEncoder | ViewsEncoder | None = None
    features: FeatureForm | None = None
    linear_form: LinearForm | None = None
    held: OutOfFold | None = None
    shift: Array | None = None
    offset: Array | None = None
    constant: NDArray[np.bool_] | None = None

    @classmethod
    def of(
        cls,
        task: Task,
        learner: Learner,
        alpha: float,
        solved: list[SolvedProblem],
        encoder: TableEncoder | ViewsEncoder | None,
        held: OutOfFold | None = None,
        shift: Array | None = None,
        offset: Array | None = None,
    ) -> Model:
        """Combine the solutions of all problems."""
        results = [s.solution for s in solved]
        # an output without a machine has none
        layers = [
            one
            for s in solved
            for one in getattr(s.solution, "upper_layers", ()) or [None] * len(s.problem.intercept)
        ]
        return cls(
            task=task,
            learner=learner,
            alpha=alpha,
            ridge=float(getattr(results[0], "relax", alpha)),
            normalizers=tuple(s.problem.normalizer for s in solved),
            weights=results[0].weights if len(results) == 1 else np.array([r.weights for r in results]),
            dual_coef=np.column_stack([r.dual_coef for r in results]),
            # fixed beforehand, and learnt
            intercept=np.concatenate([s.problem.intercept + s.solution.intercept for s in solved])
            + sum(one for one in (shift, offset) if one is not None),
            owner=np.repeat(np.arange(len(solved)), [len(s.problem.intercept) for s in solved]),
            layers=tuple(layers) if any(layers) else (),
            layered=any(getattr(r, "layer_weights", None) is not None for r in results),
            encoder=encoder,
            features=_feature_form(solved),
            held=held,
            shift=shift,
            offset=offset,
        )

    @property
    def source(self) -> Source[Any]:
        """Training rows and kernels."""
        return self.task.source

    @property
    def n_outputs(self) -> int:
        """Number of decision values of a row."""
        return len(self.intercept)

    @property
    def flat(self) -> bool:
        """Whether there is one output, and the target was not a table of one column."""
        return self.n_outputs == 1 and self.task.flat

    # ---- weights ----------------------------------------------------------------------------------

    @cached_property
    def effective(self) -> Array:
        """Weights times the factors of the normalisers, (n_outputs, n_kernels): factors of the raw kernels."""
        own = np.broadcast_to(self.weights, (self.n_outputs, self.weights.shape[-1]))
        return np.array([self.scaled(k, w) for k, w in enumerate(own)])

    def scaled(self, output: int, weights: Array) -> Array:
        """Weights of the normalised kernels of an output as weights of the raw kernels."""
        fitted = self.normalizers[self.owner[output]]
        scaled = weights * fitted.scale
        return scaled if fitted.constant is None else np.where(fitted.constant, 0.0, scaled)

    @property
    def weight_shares(self) -> Array:
        """Fractions of kernels (of the first layer), (n_kernels,): the mean over outputs with weights, or zeros.

        Targets that are constant have no function, and what weights they have is not counted.
        """
        fractions = fractions_of(np.atleast_2d(self.weights), axis=1)
        known = fractions.any(axis=1)
        if len(fractions) > 1:
            known &= ~self.constant_outputs
        return fractions[known].mean(axis=0) if known.any() else fractions[0]

    @property
    def constant_outputs(self) -> NDArray[np.bool_]:
        """Which targets, or labels, are the same in all training rows; none in files that do not say it."""
        if self.constant is not None:
            return self.constant
        targets = np.concatenate(self.task.targets, axis=1)
        # of rows that are gone one typical row is left
        return (np.ptp(targets, axis=0) == 0) & (len(targets) > 1)

    @property
    def views(self) -> list[str]:
        """The view of every kernel: an attribute of kernels, inferred from the names of kernel matrices."""
        kernels = getattr(self.source, "kernels", None)
        if kernels is None:
            return [view_in(str(name)) for name in self.source.names]
        return [kernel.view for kernel in kernels]

    @property
    def sources(self) -> tuple[list[str], Array]:
        """Names and fractions of the views of kernels, or of their columns, in the order of the kernels."""
        return self.by_source(self.weight_shares)

    def by_source(self, shares: Array) -> tuple[list[str], Array]:
        """The views, and sums of numbers of kernels, (..., n_kernels), over those of each view."""
        views = self.views
        names = list(dict.fromkeys(views))
        return names, shares @ np.array([[view == name for name in names] for view in views], dtype=float)

    def weights_of(self, output: int) -> list[Array]:
        """Weights of every layer of one output, the lowest first; equal ones of an output without a machine."""
        base = np.atleast_2d(self.weights)
        own = self.layers[output] if self.layers else None
        other = next((one.weights for one in self.layers if one is not None), ())
        every = [base[min(output, len(base) - 1)], *(other if own is None else own.weights)]
        return [np.full(len(w), 1.0 / len(w)) for w in every] if own is None and other else every

    def kernel_parameters(self, output: int) -> dict[str, float]:
        """Learnt parameters of the kernel of one output by their names: of each kernel as it is, then of the function.

        Empty for an output without a machine, and for learners whose kernels have none.
        """
        upper = self.layers[output] if self.layers else None
        if upper is None or self.layered:
            return {}
        own = {
            f.name: getattr(upper.functions[0][0], f.name) for f in fields(cast(Any, upper.functions[0][0]))
        }
        learnt = {name: own[name] for name in self.learner.learnt if name in own}
        return dict(zip(map(str, self.source.names), self.effective[output].tolist(), strict=True)) | learnt

    def table_of_weights(self) -> Array:
        """`weights`; of deep kernels (n_layers, n_kernels), with an axis of outputs first if there are several.

        NaN if a layer has fewer kernels than another. An output without a machine has no layers, and equal weights
        are returned.
        """
        if not self.layered:
            return self.weights
        sizes = list(map(len, self.weights_of(0)))
        out = np.full((self.n_outputs, len(sizes), max(sizes)), np.nan)
        for k, block in enumerate(out):
            for row, w in zip(block, self.weights_of(k), strict=True):
                row[: len(w)] = w
        return out[0] if len(out) == 1 else out

    # ---- new rows ---------------------------------------------------------------------------------

    def encode(self, X: Any) -> Table:
        """New rows as queries, if kernels have columns."""
        assert self.encoder is not None
        source = self.task.source
        assert isinstance(source, TableSource)
        return source.accepted(self.encoder.transform(X))

    def decision(self, queries: Any) -> Array:
        """Decision values of queries of the source, shape (n_rows, n_outputs)."""
        source = self.task.source
        if self.linear is not None and isinstance(source, TableSource) and not source.lacks(queries):
            values, coef = source.filled(queries).values, self.linear.coef
            if source.may_hold_nan and not (used := coef.any(axis=0)).all():
                # rows may lack views that no kernel reads
                values, coef = values[:, used], coef[:, used]
            return values @ coef.T + self.linear.intercept
        new = NewRows(source, queries, self.normalizers[0])
        return new.decisions(self._expansions, self._products)[0]

    def ends(
        self, predictions: Array, coverage: float, upper: tuple[Model, Array] | None = None
    ) -> tuple[Array, Array]:
        """Lower and upper ends of intervals about predictions of numbers, or between these and those of `upper`."""
        other, high = upper or (None, predictions)
        half = self.out_of_fold.half_widths(coverage, None if other is None else other.out_of_fold)
        low, high = np.minimum(predictions, high), np.maximum(predictions, high)
        # intervals that would be less than nothing are points
        half, lowest = np.maximum(half, 0.5 * (low - high)), self.learner.prediction(np.array(-np.inf))
        return np.maximum(low - half, lowest), high + half

    def undecided(self, values: Array) -> Array:
        """Decision values without `shift`, which probabilities are of."""
        return values if self.shift is None else values - self.shift

    @cached_property
    def _products(self) -> Products[Any] | None:
        """What sums of kernels take from training rows and coefficients, of a model that is such sums."""
        if self.features is not None or self.layers:
            return None
        found = self._expansions
        return Products(self.source, self.normalizers[0], found.active, found.coefs_of)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_products", "_expansions")}

    @cached_property
    def _expansions(self) -> Expansions:
        """The model as sums of kernels."""
        layers = [self.layers] if self.layers else []
        own = self.effective[None], self.dual_coef[None], self.intercept[None]
        return Expansions(*own, layers, self.features)

    def contributions(self, queries: Any) -> Array:
        """Contributions of kernels (of the last layer) to decision values, shape (n_rows, n_kernels, n_outputs)."""
        new = NewRows(self.source, queries, self.normalizers[0])
        n_rows = self.source.query_length(queries)
        with blas_threads_for(min(n_rows, self.source.n_samples)):
            if self.layers:
                return self._deep_contributions(new, n_rows)
            out = np.zeros((n_rows, self.source.n_kernels, self.n_outputs))
            for where, m, _, part in new.parts(self._expansions, self._products):
                out[where, m] = part[0]
        return out

    def _deep_contributions(self, new: NewRows[Any], n_rows: int) -> Array:
        width = max(len(layers.functions[-1]) for layers in self.layers if layers is not None)
        out = np.zeros((n_rows, width, self.n_outputs))
        for k, (layers, effective) in enumerate(zip(self.layers, self.effective, strict=True)):
            if layers is None:
                continue
            for where, K, kappa in new.below(layers, effective):
                for m, term in layers.last_terms(K, kappa):
                    out[where, m, k] = term @ self.dual_coef[:, k]
        return out

    @cached_property
    def linear(self) -> LinearForm | None:
        """The model as a function of the columns, if all kernels are linear on numeric columns after normalisation."""
        source = self.task.source
        if self.linear_form is not None:
            return self.linear_form
        if not isinstance(source, TableSource) or not source.is_whole or self.layers:
            return None
        if any(source.table.levels) or source.table.marked.any():
            return None
        angles = any(one.cosine_scale is not None for one in self.normalizers)
        if angles or not all(kernel.is_linear for kernel in source.kernels):
            return None
        values = source.table.values
        layout = source.linear_layout()
        found = [
            layout.coefficients(w, c, values, self.normalizers[owner].probability)
            for w, c, owner in zip(self.effective, self.dual_coef.T, self.owner, strict=True)
        ]
        coef, shift = np.array([coef for coef, _ in found]), np.array([shift for _, shift in found])
        if source.statistics is not None:
            mean, std = source.statistics
            coef = coef / std
            shift = shift - coef @ mean
        return LinearForm(coef, self.intercept + shift)

    @cached_property
    def out_of_fold(self) -> OutOfFold:
        """`held`; where no parameter was chosen, or folds were too large to keep, from further fits on folds."""
        return self.held or OutOfFold.refitted(self.task, self.learner, self.alpha)

    @cached_property
    def calibration(self) -> Calibration:
        """Probabilities of classes, whose order is that of the decision values."""
        held = self.out_of_fold
        codes = held.truth.astype(np.intp)
        weights = self.task.times_factors(held.weights, codes)
        return calibrate(held.values, codes, weights, "temperature", multilabel=self.task.multilabel)

    def posterior_std(self, queries: Any, prior_scale: Array) -> Array:
        """Posterior standard deviations (n_rows, n_outputs); one factorisation for each set of weights.

        Parameters
        ----------
        queries : queries of the source
        prior_scale : array of shape (n_outputs,)
            Of the Gaussian process whose mean the model is.
        """
        source, fitted = self.source, self.normalizers[0]
        gram = fitted.prepare(source.gram(), overwrite=True)
        if isinstance(gram, FeatureGram) and self.features is not None and not source.lacks(queries):
            return self._std_of_features(gram, queries, prior_scale)
        weight = self.task.sample_weight
        inverse_weights = np.ones(source.n_samples) if weight is None else 1.0 / weight
        out = np.zeros((source.query_length(queries), self.n_outputs))
        for group in self._groups_of_outputs():
            effective = self.effective[group[0]]
            if np.isinf(self.ridge):
                # f = 0 without any prior scale: alpha tau^2 is finite, so tau^2 is 0
                continue
            system = DenseSystem(gram.combine(effective, upper=True), self.ridge, inverse_weights)
            cross, prior = np.zeros((len(out), source.n_samples)), np.zeros(len(out))
            for where, K, kappa in NewRows(source, queries, fitted).summed(effective):
                cross[where], prior[where] = K, kappa
            explained = np.einsum("ri,ir->r", cross, system.solve(np.asfortranarray(cross.T)))
            variance = np.maximum(prior - explained, 0.0)
            out[:, group] = np.sqrt(variance[:, None] * prior_scale[group])
        return out

    def _std_of_features(self, gram: FeatureGram, queries: Any, prior_scale: Array) -> Array:
        """The same from features phi with the weights of kernels: ``ridge phi' (ridge I + Z'WZ)^-1 phi``, squared."""
        assert self.features is not None
        source, form, weight = self.source, self.features, self.task.sample_weight
        out = np.zeros((source.query_length(queries), self.n_outputs))
        if np.isinf(self.ridge):
            return out
        for group in self._groups_of_outputs():
            roots = np.sqrt(np.repeat(self.effective[group[0]], np.diff(form.offsets)))
            used = np.flatnonzero(roots)
            Z = gram.rows[used] * roots[used, None]
            inner = (Z if weight is None else Z * weight) @ Z.T
            inner.flat[:: len(inner) + 1] += self.ridge
            factor = np.linalg.cholesky(inner)
            variance = np.zeros(len(out))
            for where, phi in NewRows(source, queries, self.normalizers[0]).features(form):
                half = solve_triangular(factor, (phi[:, used] * roots[used]).T, lower=True)
                variance[where] = self.ridge * np.square(half).sum(axis=0)
            out[:, group] = np.sqrt(variance[:, None] * prior_scale[group])
        return out

    def _groups_of_outputs(self) -> list[Rows]:
        """Outputs that share weights."""
        _, group = np.unique(self.effective, axis=0, return_inverse=True)
        return [np.flatnonzero(group.ravel() == k) for k in range(group.max() + 1)]


def _feature_form(solved: list[SolvedProblem]) -> FeatureForm | None:
    """Coefficients of the features on which problems were solved: the solution's own, or those of its dual ones."""
    gram = solved[0].problem.gram
    if not isinstance(gram, FeatureGram) or any(getattr(s.solution, "upper_layers", ()) for s in solved):
        return None
    parts = []
    for s in solved:
        result, own = s.solution, s.problem.gram
        assert isinstance(own, FeatureGram)
        if result.feature_coef.size:
            parts.append(result.feature_coef.reshape(len(own.rows), -1))
            continue
        products = own.rows @ result.dual_coef.reshape(own.n_samples, -1)
        factors = np.repeat(np.atleast_2d(result.weights) * s.problem.normalizer.scale, own.ranks, axis=1)
        parts.append(products * factors.T)
    return FeatureForm(np.concatenate(parts, axis=1), gram.offsets, solved[0].problem.means)

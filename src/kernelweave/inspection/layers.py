"""Layers of deep kernels: weights, descent, matrices and eigenvalues; and weighted sums of kernels as two layers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from kernelweave._checks import InputError
from kernelweave._forms import ShortRepr
from kernelweave._parameters import Flag, checked, renamed
from kernelweave._types import Array, Features, Labels
from kernelweave.fitting.prediction import NewRows
from kernelweave.fitting.stacks import GivenSource
from kernelweave.fitting.task import problems_of
from kernelweave.inspection.arguments import (
    Model,
    MostRows,
    Names,
    Output,
    Seed,
    WhichWeights,
    decision_names,
    output_of,
    outputs_of,
    targets_of,
    which_output,
)
from kernelweave.inspection.registry import Basis, Finding, Interval, Table, at, finding
from kernelweave.inspection.weights import fractions_of, weight_table
from kernelweave.learners.radius import FamilyLearner
from kernelweave.mkl.layers import Layers, TrainedLayers

__all__ = [
    "LayerDescent",
    "LayerGrams",
    "LayerSpectra",
    "LayerWeights",
    "TwoLayers",
    "descent",
    "layer_grams",
    "layer_spectra",
    "layer_weights",
    "two_layers",
]

#: Rows of the kernel matrices of layers: more would make pictures and eigenvalues slow without further information.
MAX_ROWS = 1000


@dataclass(frozen=True)
class LayerWeights(ShortRepr):
    """Names and weights of the kernels of every layer.

    Attributes
    ----------
    names : tuple of arrays of str
        One array per layer, the lowest first.
    weights : tuple of arrays of shape (n_kernels,) or (n_kernels, n_outputs)
        One column per class or output if each has its own weights.
    outputs : tuple of str
        Names of the columns; one empty name when there is one column.
    """

    names: tuple[Names, ...]
    weights: tuple[Array, ...]
    outputs: tuple[str, ...]

    @property
    def fractions(self) -> tuple[Array, ...]:
        """The weights divided by their sum in each layer, for each output."""
        return tuple(map(fractions_of, self.weights))


@checked
def layer_weights(estimator: Model, *, output: Output = None) -> LayerWeights:
    """Kernel weights of every layer of a fitted estimator; there is one layer unless the learner is deep.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
        Whose kernels and weights are looked at.
    output : str or int, optional
        One class or output of a model with several; default all of them.

    Returns
    -------
    LayerWeights

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> model = kw.MKLClassifier(kw.banks.mlmkl(), "deep-uniform", normalize="cosine").fit(X, X[:, 0] > 0)
    >>> found = kw.inspection.layer_weights(model)
    >>> list(found.names[1]), found.weights[1]
    (['Linear', 'RBF(gamma=1)', 'Polynomial(degree=2)', 'Polynomial(degree=3)'], array([0.25, 0.25, 0.25, 0.25]))
    """
    outputs = outputs_of(estimator)
    chosen = range(len(outputs)) if output is None else [which_output(outputs, output)]
    layers = zip(*(estimator.model_.weights_of(k) for k in chosen), strict=True)
    flat = len(outputs) == 1 or output is not None
    return LayerWeights(
        tuple(estimator.layer_kernel_names_),
        tuple(columns[0].copy() if flat else np.column_stack(columns) for columns in layers),
        tuple(outputs[k] for k in chosen),
    )


@dataclass(frozen=True)
class LayerDescent(ShortRepr):
    """The descent of the weights of a deep kernel, including the start.

    Attributes
    ----------
    criterion : array of shape (n_steps,)
        The criterion on the training rows after each step, that of the initial weights first.
    names : tuple of arrays of str
        Kernels of every layer.
    weights : tuple of arrays of shape (n_steps, n_kernels of the layer)
        Weights of every layer after each step, the lowest layer first.
    validation, validation_error : arrays of shape (n_steps,) or None
        Mean loss, and error rate (for regression the root mean squared error), on validation rows.
    kept : int
        The step whose weights the model has.
    output : str
        Which class or output.
    """

    criterion: Array
    names: tuple[Names, ...]
    weights: tuple[Array, ...]
    validation: Array | None
    validation_error: Array | None
    kept: int
    output: str


@checked
def descent(estimator: Model, *, output: Output = None) -> LayerDescent:
    """Criterion, weights and validation loss over the iterations of a deep learner.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
        With a learner that descends: `MLMKL`, `DMKL` or `TwoLayerMKL`. For a path of regularisation parameters
        this is the last descent, which started at the weights of the previous regularisation parameter.
    output : str or int, optional
        Class or output of a model with several; default the first.

    Returns
    -------
    LayerDescent

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> learner = kw.learners.MLMKL(C=10.0, tol=1e-2)
    >>> model = kw.MKLClassifier(kw.banks.mlmkl(), learner, normalize="cosine").fit(X, X[:, 0] * X[:, 1] > 0)
    >>> found = kw.inspection.descent(model)
    >>> bool((np.diff(found.criterion) <= 0).all()), [w.shape[1] for w in found.weights]
    (True, [4, 4])
    """
    which, name = output_of(estimator, output)
    histories = estimator.history_
    history = histories[which] if which < len(histories) else {}
    if not {"criterion", "weights"} <= set(history):
        learner = type(estimator.model_.learner).__name__
        raise InputError(f"{learner} has no descent of a criterion. Use learner='mlmkl', 'dmkl' or '2lmkl'.")
    final = estimator.model_.weights_of(which)
    ends = np.cumsum([len(w) for w in final])[:-1]
    distance = np.abs(history["weights"] - np.concatenate(final)).max(axis=1)
    return LayerDescent(
        criterion=history["criterion"],
        names=tuple(estimator.layer_kernel_names_),
        weights=tuple(np.split(history["weights"], ends, axis=1)),
        validation=history.get("validation"),
        validation_error=history.get("validation_error"),
        kept=int(np.argmin(distance)),
        output=name,
    )


@dataclass(frozen=True)
class LayerGrams(ShortRepr):
    """Kernel matrices of every layer on training rows.

    Attributes
    ----------
    kernels : tuple of arrays of shape (n_rows, n_rows)
        The lowest layer first.
    rows : array of int, shape (n_rows,)
        Which of the training rows (those with a positive weight).
    target : array of shape (n_rows,)
        Their classes, or targets.
    output : str
        Which class or output the weights belong to.
    """

    kernels: tuple[Array, ...]
    rows: NDArray[np.intp]
    target: Labels
    output: str


@renamed(seed="random_state")
@checked
def layer_grams(
    estimator: Model,
    *,
    output: Output = None,
    weights: WhichWeights = "learnt",
    max_rows: MostRows = MAX_ROWS,
    random_state: Seed = 0,
) -> LayerGrams:
    """Kernel matrices of every layer on the training rows of a fitted estimator.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
        Whose kernels and weights are looked at.
    output : str or int, optional
        Class or output of a model with several; default the first.
    weights : {"learnt", "initial"}, default="learnt"
        Those of the model, or the equal weights from which learners start.
    max_rows : int, default=1000
        With more training rows, a random sample of this size is used.
    random_state : int, default=0
        Seed of that sample.

    Returns
    -------
    LayerGrams

    Notes
    -----
    Computes the base kernels of all training rows again, as `fit` did.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> model = kw.MKLClassifier(kw.banks.mlmkl(), "deep-uniform", normalize="cosine").fit(X, X[:, 0] > 0)
    >>> [K.shape for K in kw.inspection.layer_grams(model).kernels]
    [(30, 30), (30, 30)]
    """
    which, name = output_of(estimator, output)
    model = estimator.model_
    problems = problems_of(model.task)
    gram = problems[which if len(problems) > 1 else 0].gram
    n = model.task.source.n_samples
    rows = np.arange(n)
    if n > max_rows:
        rows = np.sort(np.random.default_rng(random_state).choice(n, max_rows, replace=False))
        gram = gram.restrict(rows)
    own = model.weights_of(which)
    if weights == "initial":
        own = [np.full(len(w), 1.0 / len(w)) for w in own]
    trained = model.layers[which] if model.layers else None
    if trained is not None and trained.first is not None:
        K = trained.first.inner(trained.first.values[rows])[0][:, rows]
    else:
        K = gram.combine(model.scaled(which, own[0]))
    layers = Layers(()) if trained is None else trained.layers
    tape = layers.forward(K, K.diagonal().copy(), [] if trained is None else own[1:])
    return LayerGrams(
        # a pass fills only the upper triangle, except in the last layer
        kernels=tuple(np.triu(K) + np.triu(K, 1).T for K in tape.kernels),
        rows=rows,
        target=targets_of(estimator, which)[rows],
        output=name,
    )


@dataclass(frozen=True)
class LayerSpectra(ShortRepr):
    """Eigenvalues of the kernel matrices of every layer.

    Attributes
    ----------
    eigenvalues : tuple of arrays of shape (n_rows,)
        Descending, divided by their sum (the trace).
    effective_rank : array of shape (n_layers,)
        ``exp(-sum_i e_i log e_i)``: from 1, if there is a single direction, to n_rows, if all eigenvalues are equal.
    output : str
        Which class or output the weights belong to.
    """

    eigenvalues: tuple[Array, ...]
    effective_rank: Array
    output: str


@renamed(seed="random_state")
@checked
def layer_spectra(
    estimator: Model,
    *,
    output: Output = None,
    weights: WhichWeights = "learnt",
    center: Annotated[bool, Flag()] = False,
    max_rows: MostRows = MAX_ROWS,
    random_state: Seed = 0,
) -> LayerSpectra:
    """Eigenvalues of the kernel matrices of every layer on the training rows, as shares of the trace.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
        Whose kernels and weights are looked at.
    output : str or int, optional
        Class or output of a model with several; default the first.
    weights : {"learnt", "initial"}, default="learnt"
        Those of the model, or the equal weights from which learners start.
    center : bool, default=False
        Centre the matrices first, which removes the mean; it is often the largest eigenvalue, and equivalent to an
        intercept.
    max_rows : int, default=1000
        With more training rows, a random sample of this size is used.
    random_state : int, default=0
        Seed of that sample.

    Returns
    -------
    LayerSpectra

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> model = kw.MKLClassifier(kw.banks.mlmkl(), "deep-uniform", normalize="cosine").fit(X, X[:, 0] > 0)
    >>> found = kw.inspection.layer_spectra(model)
    >>> [round(float(e.sum()), 6) for e in found.eigenvalues]
    [1.0, 1.0]
    """
    grams = layer_grams(
        estimator, output=output, weights=weights, max_rows=max_rows, random_state=random_state
    )
    found = []
    for K in grams.kernels:
        if center:
            K = K - K.mean(axis=0)
            K = K - K.mean(axis=1, keepdims=True)
        # rounding leaves negative eigenvalues of the size of the largest one times the precision
        values = np.maximum(np.linalg.eigvalsh(0.5 * (K + K.T))[::-1], 0.0)
        total = float(values.sum())
        found.append(values / total if total > 0 else values)
    rank = [float(np.exp(stats.entropy(e))) if e.any() else 0.0 for e in found]
    return LayerSpectra(tuple(found), np.array(rank), grams.output)


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


# ---- findings --------------------------------------------------------------------------------------


@finding("parameters", title="Learnt parameters of the kernel", needs=("model",))
def _parameters(basis: Basis) -> Finding | None:
    model = basis.model.model_
    names = decision_names(basis.model) if model.n_outputs > 1 else ("",)
    every = {name: model.kernel_parameters(k) for k, name in enumerate(names)}
    every = {name: found for name, found in every.items() if found}
    if not every or not isinstance(model.learner, FamilyLearner):
        return None
    several, kernel = len(every) > 1, model.learner.form().name
    values = {
        f"{name}: {label}" if several else label: Interval(float(value))
        for name, found in every.items()
        for label, value in found.items()
    }
    columns = {(name if several else "value"): list(found.values()) for name, found in every.items()}
    table = Table.of(
        "kernel-parameters",
        f"Parameters of the {kernel} kernel",
        {"parameter": list(next(iter(every.values()))), **columns},
        "Of a kernel: the factor of its squared distances, or of its values in a polynomial. A local solution.",
    )
    made = Finding(values, f"Learnt parameters of one {kernel} kernel of all columns.", tables=(table,))
    first = next(iter(every.values()))
    largest, own = (
        max(model.source.names, key=lambda name: first[str(name)]),
        list(first)[model.source.n_kernels :],
    )
    of = f" for {next(iter(every))}" if several else ""
    prefix = f"{next(iter(every))}: " if several else ""
    said = "".join(f", and {name} is {{p{k}:.3g}}" for k, name in enumerate(own))
    return made.says(
        "which",
        f"In the {kernel} kernel{{of}} the largest parameter is that of {{name}}, {{v:.3g}}{said}.",
        {"name": str(largest), "of": of},
        v=at(f"{prefix}{largest}"),
        **{f"p{k}": at(f"{prefix}{name}") for k, name in enumerate(own)},
    )


@finding("layers", title="Weights of upper layers", needs=("model",))
def _upper_layers(basis: Basis) -> Finding | None:
    found, constant = layer_weights(basis.model), basis.model.model_.constant_outputs
    if len(found.names) < 2:
        return None
    made = Finding(
        meaning="Weights of the kernels on the layer below, as fractions of the weights of a layer.",
        form=".1%",
    )
    for depth, (names, fractions) in enumerate(
        zip(found.names[1:], found.fractions[1:], strict=True), start=2
    ):
        counted = fractions.reshape(len(names), -1)
        if counted.shape[1] > 1 and not constant.all():
            counted = counted[:, ~constant]
        means = counted.mean(axis=1)
        labels = [f"layer {depth}: {name}" for name in names]
        values = {label: Interval(float(mean)) for label, mean in zip(labels, means, strict=True)}
        title, head = f"Weight by kernel, layer {depth}", "kernel of the layer below"
        table = weight_table(f"weights-layer-{depth}", title, head, names, fractions, found.outputs)
        largest = int(np.argmax(means))
        made = replace(made, values={**made.values, **values}, tables=(*made.tables, table)).says(
            "which",
            f"In layer {depth} the largest weight is that of {{name}}, {{v:.1%}}.",
            {"name": str(names[largest])},
            v=at(labels[largest]),
        )
    return made

"""Layers of deep kernels: their weights, descent, matrices and eigenvalues."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.utils.validation import check_is_fitted

from kernelweave._checks import InputError
from kernelweave._forms import ShortRepr
from kernelweave._parameters import Flag, checked, renamed
from kernelweave._types import Array, Labels
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
from kernelweave.mkl.layers import Layers

__all__ = [
    "LayerDescent",
    "LayerGrams",
    "LayerSpectra",
    "LayerWeights",
    "descent",
    "layer_grams",
    "layer_spectra",
    "layer_weights",
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
    check_is_fitted(estimator)
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

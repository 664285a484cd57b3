"""Tables about fitted estimators: data, never drawings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from kernelweave._checks import Costs, InputError, Strengths, check_known
from kernelweave._parameters import Flag, InstanceOf, OneOf, Text, Whole, checked
from kernelweave.estimators import MKLClassifier, MKLRegressor
from kernelweave.estimators.cv import check_strengths
from kernelweave.fitting.source import TableSource
from kernelweave.fitting.task import path_task, set_up, shared_alphas
from kernelweave.mkl.layers import Layers

__all__ = [
    "KernelWeights",
    "LayerDescent",
    "LayerGrams",
    "LayerSpectra",
    "LayerWeights",
    "Path",
    "TwoLayers",
    "contribution_sizes",
    "descent",
    "kernel_weights",
    "layer_grams",
    "layer_spectra",
    "layer_weights",
    "regularization_path",
    "two_layers",
    "uninformative",
    "view_of",
    "view_weights",
]

Array = NDArray[np.float64]

#: What is looked into.
Model = Annotated[
    Any,
    InstanceOf(
        (MKLClassifier, MKLRegressor), "a fitted MKLRegressor, MKLClassifier or one of their CV forms"
    ),
]
#: Which class or output of a model with several: its name or position.
Output = Annotated[str | int | None, Text() | Whole() | None]

#: Rows of the kernel matrices of layers: pictures and eigenvalues of more would cost more than they say.
MAX_ROWS = 1000

#: How the labels of single kernels begin.
_KERNEL = r"[A-Z]\w*(?:\([^()]*\))?"


@dataclass(frozen=True)
class KernelWeights:
    """Kernel names with their weights, largest first.

    Attributes
    ----------
    names : array of str, shape (n_kernels,)
    weights : array of shape (n_kernels,) or (n_kernels, n_outputs)
        One column per class or output where each has its own weights.
    outputs : tuple of str
        Names of the columns; one empty name when there is one column.
    """

    names: NDArray[Any]
    weights: Array
    outputs: tuple[str, ...]


def _outputs(estimator: Any) -> tuple[str, ...]:
    if estimator.model_.weights.ndim == 1:
        return ("",)
    classes = getattr(estimator, "classes_", None)
    if classes is not None:
        return tuple(map(str, classes))
    return tuple(f"output {k}" for k in range(len(estimator.model_.weights)))


def _which(outputs: tuple[str, ...], output: str | int | None) -> int:
    """Position of a class or output; the first by default."""
    if output is None:
        return 0
    which = (
        int(output)
        if isinstance(output, int | np.integer)
        else outputs.index(check_known(str(output), outputs, "output"))
    )
    if not 0 <= which < len(outputs):
        raise InputError(f"`output` must be from 0 to {len(outputs) - 1}, got {output!r}.")
    return which


@checked
def kernel_weights(estimator: Model, *, nonzero: Annotated[bool, Flag()] = True) -> KernelWeights:
    """Kernel weights of a fitted estimator, sorted by their sum over outputs.

    Of deep kernels those of the first layer, the one that sees the data; `layer_weights` has all of them.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
    nonzero : bool, default=True
        Only kernels with a nonzero weight.

    Returns
    -------
    KernelWeights
    """
    check_is_fitted(estimator)
    weights = np.atleast_2d(estimator.model_.weights).T
    total = weights.sum(axis=1)
    order = np.argsort(-total, kind="stable")
    if nonzero:
        order = order[total[order] > 0]
    chosen = weights[order]
    return KernelWeights(
        estimator.kernel_names_[order],
        chosen[:, 0] if estimator.model_.weights.ndim == 1 else chosen,
        _outputs(estimator),
    )


@checked
def view_weights(estimator: Model) -> dict[str, float]:
    """Shares of the views (or sets of columns) in the weights of their kernels, averaged over outputs, largest first.

    Of deep kernels those of the first layer, the one that sees the data.

    Returns
    -------
    dict of str to float
        View name (or the columns) to share; shares sum to 1.
    """
    check_is_fitted(estimator)
    weights = np.atleast_2d(estimator.model_.weights)
    total = weights.sum(axis=1, keepdims=True)
    weights = np.where(total > 0, weights / np.where(total > 0, total, 1.0), 0.0).mean(axis=0)
    shares: dict[str, float] = {}
    for view, weight in zip(_views(estimator), weights, strict=True):
        shares[view] = shares.get(view, 0.0) + float(weight)
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _views(estimator: Model) -> list[str]:
    """The view of every kernel: kernels know theirs, of kernel matrices there are only the names."""
    kernels = getattr(estimator.model_.source, "kernels", None)
    if kernels is None:
        return [view_of(str(name)) for name in estimator.kernel_names_]
    return [kernel.view for kernel in kernels]


def view_of(label: str) -> str:
    """The view part of a kernel label, as well as a text can tell; `Kernel.view` is exact.

    Examples
    --------
    >>> view_of("rna: RBF(gamma=1)"), view_of("RBF(gamma=1) on age")
    ('rna', 'age')
    """
    named = re.fullmatch(rf"(.+): {_KERNEL}", label) or re.fullmatch(rf"{_KERNEL} on (.+)", label)
    if named:
        return named[1]
    head, separator, _ = label.partition(": ")
    if separator and "(" not in head:
        return head
    return label.rpartition(" on ")[2] if " on " in label else label


@dataclass(frozen=True)
class Path:
    """Weights along a regularisation path.

    Attributes
    ----------
    alphas : array of shape (n_alphas,)
        Descending; for learners with a C they are 1 / C.
    df : array of shape (n_alphas,)
        Degrees of freedom, P1 (15).
    names : array of str, shape (n_kernels,)
    weights : array of shape (n_alphas, n_kernels)
    coef : array of shape (n_alphas, n_features) or None
        For linear kernels: coefficients of the (standardised) columns.
    chosen : int
        Position of the estimator's alpha.
    output : str
        Which class or output.
    upper_weights : tuple of arrays of shape (n_alphas, n_kernels of the layer)
        Of the layers above the first, the lowest first; `names` and `weights` are those of the first.
    criteria : dict of str to array of shape (n_alphas,)
        Selection criteria of RLS2, see `kernelweave.Path`; empty for other learners. Summed over outputs that
        were solved together.
    Cs : array of shape (n_alphas,) or None
        Of learners with a C, ascending.
    """

    alphas: Array
    df: Array
    names: NDArray[Any]
    weights: Array
    coef: Array | None
    chosen: int
    output: str
    upper_weights: tuple[Array, ...] = ()
    criteria: Mapping[str, Array] = field(default_factory=dict)
    Cs: Array | None = None


@checked
def regularization_path(
    estimator: Model,
    *,
    alphas: Annotated[ArrayLike | None, Strengths() | None] = None,
    Cs: Annotated[ArrayLike | None, Costs() | None] = None,
    n_alphas: Annotated[int, Whole(1)] = 30,
    output: Output = None,
    report: Callable[[str], bool] | None = None,
) -> Path:
    """Solve the path again on the training rows of a fitted estimator, with degrees of freedom and criteria.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
    alphas : array-like, optional
        For RLS2. Default: the strengths the estimator tried, else an automatic path.
    Cs : array-like, optional
        The same for learners with a C.
    n_alphas : int, default=30
        Length of the automatic path.
    output : str or int, optional
        Class (or output) of a one-vs-rest model; default the first.
    report : callable, optional
        Called with a text after every strength; a true value ends the path, as Ctrl-C does: what is done is kept.

    Returns
    -------
    Path
    """
    check_is_fitted(estimator)
    outputs = _outputs(estimator)
    which = _which(outputs, output)
    task = estimator.model_.task
    setups = set_up(task)
    learner = estimator.model_.learner
    check_strengths(learner, alphas, Cs, stacklevel=4)
    if Cs is not None:
        alphas = 1.0 / np.atleast_1d(np.asarray(Cs, dtype=np.float64))
    if alphas is None:
        found = getattr(estimator, "alphas_", None)
        alphas = shared_alphas(task, setups, n_alphas, learner) if found is None else found
    grid = np.sort(np.asarray(alphas, dtype=np.float64))[::-1]
    problem = which if len(setups) > 1 else 0
    tell = report or (lambda _: False)
    path = path_task(task, [setups[problem]], learner, grid, report=tell)[0]
    weights = path.weights if path.weights.ndim == 2 else path.weights[:, which]
    inner = which if len(setups) == 1 else 0
    stacks = [layers[inner] for layers in getattr(path, "uppers", ()) if layers]
    coef = None
    source = task.source
    if hasattr(estimator, "coef_") and isinstance(source, TableSource):
        scale = setups[problem].normalizer.scale
        dual = path.dual_coef.reshape(len(path), source.n_samples, -1)[:, :, inner]
        layout, probability = source.linear_layout(), setups[problem].normalizer.probability
        found = [
            layout.coefficients(w * scale, c, source.table.values, probability)
            for w, c in zip(weights, dual, strict=True)
        ]
        coef = np.array([own for own, _ in found])
    criteria = getattr(path, "criteria", {})
    return Path(
        alphas=path.alphas,
        df=criteria["df"] if criteria else path.df,
        names=estimator.kernel_names_,
        weights=weights,
        coef=coef,
        chosen=int(np.argmin(np.abs(np.log(path.alphas) - np.log(estimator.alpha_)))),
        output=outputs[which],
        upper_weights=tuple(
            map(np.array, zip(*(layers.weights for layers in stacks if layers), strict=True))
        ),
        criteria=criteria,
        Cs=1.0 / path.alphas if learner.strength == "C" else None,
    )


@checked
def uninformative(estimator: Model, *, most: Annotated[int, Whole(1)] = 6) -> list[str]:
    """Sentences about kernels that say nothing about new rows, with their names.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
    most : int, default=6
        Names in a sentence; of more it says how many.

    Returns
    -------
    list of str
        One for kernels that are the identity on the training rows, one for those that are constant; none where there
        are no such kernels.
    """
    check_is_fitted(estimator)
    sentences = []
    for kind, words in (
        ("identity", "the identity on the training rows: in them no row resembles another"),
        ("constant", "constant on the training rows: in them all rows are alike"),
    ):
        names = [name for name, found in estimator.uninformative_kernels_ if found == kind]
        if names:
            more = f" and {len(names) - most} more" if len(names) > most else ""
            one = "1 kernel is" if len(names) == 1 else f"{len(names)} kernels are"
            sentences.append(f"{one} {words} ({', '.join(names[:most])}{more}).")
    return sentences


@checked
def contribution_sizes(estimator: Model, X: Any) -> KernelWeights:
    """Standard deviation over rows of what each kernel adds to the decision values, largest first.

    Of deep kernels what the kernels of the last layer add, whose sum is the decision value.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
    X : array-like of shape (n_rows, n_features)

    Returns
    -------
    KernelWeights
        Sizes in place of weights, in units of the target.
    """
    parts = estimator.kernel_contributions(X)
    sizes = parts.std(axis=0)
    flat = sizes if sizes.ndim == 1 else sizes.sum(axis=1)
    order = np.argsort(-flat, kind="stable")
    order = order[flat[order] > 0]
    names = ("",) if sizes.ndim == 1 else _outputs(estimator)
    return KernelWeights(estimator.layer_kernel_names_[-1][order], sizes[order], names)


@dataclass(frozen=True)
class TwoLayers:
    """A weighted sum of kernels, read as a machine with two layers: ``f(x) = f2(f1(x)) + intercept``.

    Attributes
    ----------
    names : array of str, shape (n_kernels,)
    weights : array of shape (n_kernels,)
        d of the combined kernel ``sum_i d_i s_i K_i``.
    scale : array of shape (n_kernels,)
        s, the factors of the normaliser: the diagonal of the second layer's kernel ``z'Sz'``.
    beta : array of shape (n_kernels,)
        Coefficients of the second layer, ``sqrt(d_i / s_i)``. Their signs are free; all are taken positive.
    first : array of shape (n_rows, n_kernels)
        f1 of the rows, ``f1_i(x) = s_i beta_i sum_j c_j K_i(x_j, x)``; 0 where d_i = 0.
    first_norm2 : float
        ``||f1||^2 = c'K(d)c``, what the strength of regularisation multiplies.
    second_norm2 : float
        ``||f2||^2 = beta'S beta = sum_i d_i``: 1 on the simplex.
    output : str
        Which class or output.
    """

    names: NDArray[Any]
    weights: Array
    scale: Array
    beta: Array
    first: Array
    first_norm2: float
    second_norm2: float
    output: str

    def second(self, z: ArrayLike) -> Array:
        """The second layer, ``f2(z) = z'S beta``.

        Parameters
        ----------
        z : array of shape (n_rows, n_kernels)

        Returns
        -------
        array of shape (n_rows,)
        """
        values = np.asarray(z, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self.beta):
            raise InputError(f"`z` must have shape (n_rows, {len(self.beta)}), got {values.shape}.")
        return values @ (self.scale * self.beta)


@checked
def two_layers(estimator: Model, X: Any, *, output: Output = None) -> TwoLayers:
    """The two layers of a fitted model, after the representer theorem of P1 (Theorems 1 and 2).

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
        With a weighted sum of kernels.
    X : array-like of shape (n_rows, n_features)
        Rows of which the first layer is evaluated.
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
    >>> model = kw.MKLRegressor(kw.banks.linear_features(3), kw.learners.RLS2(0.1)).fit(X, X[:, 0] - X[:, 1])
    >>> layers = kw.inspection.two_layers(model, X)
    >>> layers.first.shape, round(layers.second_norm2, 9)
    ((40, 3), 1.0)
    >>> bool(np.allclose(layers.second(layers.first) + model.intercept_, model.predict(X)))
    True
    """
    check_is_fitted(estimator)
    if estimator.model_.layers:
        raise InputError(
            "This model has layers of kernels on kernels; `two_layers` reads weighted sums of kernels, as of RLS2 or "
            "SimpleMKL. For deep kernels see `layer_weights`."
        )
    n_outputs = estimator.model_.dual_coef.shape[1]
    classes = getattr(estimator, "classes_", None)
    named = range(n_outputs) if classes is None or n_outputs == 1 else classes
    outputs = tuple(f"output {k}" if classes is None else str(k) for k in named) if n_outputs > 1 else ("",)
    which = _which(outputs, output)
    owner = estimator.model_.owner[which]
    scale = estimator.normalizers_[owner].scale
    base = np.atleast_2d(estimator.model_.weights)
    weights = base[min(which, len(base) - 1)]
    parts = estimator.kernel_contributions(X)
    parts = parts[:, :, which] if parts.ndim == 3 else parts
    root = np.sqrt(weights * scale)
    setup = set_up(estimator.model_.task)[owner]
    q = setup.gram.quadratic_forms(estimator.model_.dual_coef[:, which][None])
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


# ---- deep kernels ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class LayerWeights:
    """Names and weights of the kernels of every layer.

    Attributes
    ----------
    names : tuple of arrays of str
        One array per layer, the lowest first.
    weights : tuple of arrays of shape (n_kernels,) or (n_kernels, n_outputs)
        One column per class or output where each has its own weights.
    outputs : tuple of str
        Names of the columns; one empty name when there is one column.
    """

    names: tuple[NDArray[Any], ...]
    weights: tuple[Array, ...]
    outputs: tuple[str, ...]


@checked
def layer_weights(estimator: Model, *, output: Output = None) -> LayerWeights:
    """Kernel weights of every layer of a fitted estimator; there is one layer unless the learner is deep.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
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
    outputs = _outputs(estimator)
    chosen = range(len(outputs)) if output is None else [_which(outputs, output)]
    layers = zip(*(estimator.model_.weights_of(k) for k in chosen), strict=True)
    flat = len(outputs) == 1 or output is not None
    return LayerWeights(
        tuple(estimator.layer_kernel_names_),
        tuple(columns[0].copy() if flat else np.column_stack(columns) for columns in layers),
        tuple(outputs[k] for k in chosen),
    )


@dataclass(frozen=True)
class LayerDescent:
    """How the weights of a deep kernel came about, the start included.

    Attributes
    ----------
    criterion : array of shape (n_steps,)
    names : tuple of arrays of str
        Kernels of every layer.
    weights : tuple of arrays of shape (n_steps, n_kernels of the layer)
    validation, validation_error : arrays of shape (n_steps,) or None
        Mean loss, and error rate (of regression the root mean squared error), on rows set aside.
    kept : int
        The step whose weights the model has.
    output : str
        Which class or output.
    """

    criterion: Array
    names: tuple[NDArray[Any], ...]
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
        With a learner that descends: `MLMKL`, `DMKL` or `TwoLayerMKL`. Of a path of strengths the last descent was
        kept, which started at the weights of the strength before.
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
    check_is_fitted(estimator)
    outputs = _outputs(estimator)
    which = _which(outputs, output)
    histories = estimator.history_
    history = histories[which] if which < len(histories) else {}
    if not {"criterion", "weights"} <= set(history):
        name = type(estimator.model_.learner).__name__
        raise InputError(f"{name} left no descent of a criterion. Use learner='mlmkl', 'dmkl' or '2lmkl'.")
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
        output=outputs[which],
    )


@dataclass(frozen=True)
class LayerGrams:
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
    target: NDArray[Any]
    output: str


def _targets(estimator: Model, which: int) -> NDArray[Any]:
    """The classes, or the targets of one output, of the training rows."""
    task, classes = estimator.model_.task, getattr(estimator, "classes_", None)
    if classes is None:
        targets = task.targets
        return targets[0][:, min(which, targets[0].shape[1] - 1)]
    return classes[task.codes]


@checked
def layer_grams(
    estimator: Model,
    *,
    output: Output = None,
    weights: Annotated[str, OneOf("learnt", "initial")] = "learnt",
    max_rows: Annotated[int, Whole(2)] = MAX_ROWS,
    seed: Annotated[int, Whole(0)] = 0,
) -> LayerGrams:
    """Kernel matrices of every layer on the training rows of a fitted estimator.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
    output : str or int, optional
        Class or output of a model with several; default the first.
    weights : {"learnt", "initial"}, default="learnt"
        Those of the model, or the equal ones that learners start from.
    max_rows : int, default=1000
        Of more training rows, as many as this are drawn at random.
    seed : int, default=0
        Of that draw.

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
    check_is_fitted(estimator)
    outputs = _outputs(estimator)
    which = _which(outputs, output)
    task = estimator.model_.task
    setups = set_up(task)
    setup = setups[which if len(setups) > 1 else 0]
    n = task.source.n_samples
    rows = np.arange(n)
    gram = setup.gram
    if n > max_rows:
        rows = np.sort(np.random.default_rng(seed).choice(n, int(max_rows), replace=False))
        gram = gram.restrict(rows)
    own = estimator.model_.weights_of(which)
    if weights == "initial":
        own = [np.full(len(w), 1.0 / len(w)) for w in own]
    K = gram.combine(estimator.model_.scaled(which, own[0]))
    trained = estimator.model_.layers[which] if estimator.model_.layers else None
    layers = Layers(()) if trained is None else trained.layers
    tape = layers.forward(K, K.diagonal().copy(), own[1:])
    return LayerGrams(
        # of all but the last, a pass fills the upper triangle alone
        kernels=tuple(np.triu(K) + np.triu(K, 1).T for K in tape.kernels),
        rows=rows,
        target=_targets(estimator, which)[rows],
        output=outputs[which],
    )


@dataclass(frozen=True)
class LayerSpectra:
    """Eigenvalues of the kernel matrices of every layer.

    Attributes
    ----------
    eigenvalues : tuple of arrays of shape (n_rows,)
        Descending, divided by their sum (the trace).
    effective_rank : array of shape (n_layers,)
        ``exp(-sum_i e_i log e_i)``: from 1, when one direction holds everything, to n_rows, when all are equal.
    output : str
        Which class or output the weights belong to.
    """

    eigenvalues: tuple[Array, ...]
    effective_rank: Array
    output: str


@checked
def layer_spectra(
    estimator: Model,
    *,
    output: Output = None,
    weights: Annotated[str, OneOf("learnt", "initial")] = "learnt",
    center: Annotated[bool, Flag()] = False,
    max_rows: Annotated[int, Whole(2)] = MAX_ROWS,
    seed: Annotated[int, Whole(0)] = 0,
) -> LayerSpectra:
    """Eigenvalues of the kernel matrices of every layer on the training rows, as shares of the trace.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
    output : str or int, optional
        Class or output of a model with several; default the first.
    weights : {"learnt", "initial"}, default="learnt"
        Those of the model, or the equal ones that learners start from.
    center : bool, default=False
        Centre the matrices first: the mean, which often is the largest eigenvalue, is no more than the intercept can
        do.
    max_rows : int, default=1000
        Of more training rows, as many as this are drawn at random.
    seed : int, default=0
        Of that draw.

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
    grams = layer_grams(estimator, output=output, weights=weights, max_rows=max_rows, seed=seed)
    found = []
    for K in grams.kernels:
        if center:
            K = K - K.mean(axis=0)
            K = K - K.mean(axis=1, keepdims=True)
        # rounding leaves negative ones of the size of the largest times the precision
        values = np.maximum(np.linalg.eigvalsh(0.5 * (K + K.T))[::-1], 0.0)
        total = float(values.sum())
        found.append(values / total if total > 0 else values)
    rank = [np.exp(-float((e[e > 0] * np.log(e[e > 0])).sum())) if e.any() else 0.0 for e in found]
    return LayerSpectra(tuple(found), np.array(rank), grams.output)

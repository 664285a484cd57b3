"""Would other rows give the same weights? Weights over random halves of the rows, or over bootstrap samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from kernelweave._checks import InputError
from kernelweave._parameters import Flag, OneOf, Whole, checked
from kernelweave._types import Features
from kernelweave.estimators.parameters import stated
from kernelweave.inspection.arguments import (
    Jobs,
    Level,
    Model,
    OptionalEntries,
    Params,
    Report,
    Seed,
    Targets,
    outputs_of,
)
from kernelweave.inspection.refitting import Places, Rows, each_done, plainly
from kernelweave.inspection.registry import (
    MOST_NAMED,
    Basis,
    Finding,
    Table,
    ends,
    finding,
    intervals_of,
    named,
)
from kernelweave.inspection.scores import middle
from kernelweave.inspection.weights import by_source
from kernelweave.normalizers import Trace, resolve

Array = NDArray[np.float64]

#: A kernel with a weight is stable if it has one in at least this share of the samples.
STABLE = 0.8


@dataclass(frozen=True)
class WeightStability:
    """Kernel weights over samples of the rows.

    Attributes
    ----------
    names : tuple of str
        All kernels, in the order of the model.
    outputs : tuple of str
        Classes or outputs with weights of their own; one empty name where they share them.
    weights : array of shape (n_kernels, n_outputs)
        Of the model itself.
    samples : array of shape (n_done, n_kernels, n_outputs)
    low, high : array of shape (n_kernels, n_outputs)
        Percentiles over the samples.
    frequency : array of shape (n_kernels, n_outputs)
        Share of the samples in which a kernel has a weight.
    views : tuple of str
        Sources, largest first.
    view_weights, view_low, view_high, view_frequency : array of shape (n_views,)
        The same for the shares of views, as `view_weights` has them.
    level : float
    interrupted : bool
        Whether fewer samples were done than asked for.
    """

    names: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: Array
    samples: Array
    low: Array
    high: Array
    frequency: Array
    views: tuple[str, ...]
    view_weights: Array
    view_low: Array
    view_high: Array
    view_frequency: Array
    level: float
    interrupted: bool

    def unstable(self) -> list[str]:
        """Kernels with a weight in the model, and in fewer than 80 % of the samples."""
        lacking = np.any((self.weights > 0) & (self.frequency < STABLE), axis=1)
        return [name for name, some in zip(self.names, lacking.tolist(), strict=True) if some]


@checked
def weight_stability(
    estimator: Model,
    X: Features,
    y: Targets,
    *,
    n_samples: Annotated[int, Whole(2)] = 50,
    sampling: Annotated[str, OneOf("halves", "bootstrap")] = "halves",
    choose_again: Annotated[bool, Flag()] = False,
    groups: OptionalEntries = None,
    params: Params = None,
    level: Level = 0.95,
    n_jobs: Jobs = None,
    seed: Seed = 0,
    report: Report = None,
) -> WeightStability:
    """Kernel weights over samples of the rows, with intervals and how often each kernel is selected.

    Of half of the rows without repetition, drawn many times, the spread of the weights estimates that over other
    samples of all n rows (the delete-d jackknife with d = n / 2). Half of each class is drawn.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
        Fitted on these rows.
    X : array-like, frame, sparse matrix or views
        As `fit` takes it, precomputed kernels and indices of a bank too.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
    n_samples : int, default=50
    sampling : {"halves", "bootstrap"}, default="halves"
        Halves of the rows, or as many rows with repetition. Repeated rows are in a training fold and in its test fold
        where `choose_again` chooses by folds.
    choose_again : bool, default=False
        Choose the regularisation parameter again in every sample, by the folds of the estimator; otherwise it is that
        of the estimator, for the number of rows of the sample.
    groups : array-like of shape (n_rows,), optional
        Whole groups are drawn. With `choose_again` they are passed to `fit` too.
    params : dict of str to array, optional
        Arguments of `fit` with an entry for each row, such as ``{"sample_weight": w}``.
    level : float, default=0.95
    n_jobs : int, optional
        Samples at the same time.
    seed : int, default=0
    report : callable, optional
        Called with a text after every sample; a true value ends, like Ctrl-C, and what is done is kept.

    Returns
    -------
    WeightStability

    Raises
    ------
    InputError
        `X` and `y` have different numbers of rows, or samples have other kernels than the model.
    KeyboardInterrupt
        Nothing was done before.

    Notes
    -----
    n_samples fits. Without `choose_again` the loss and the penalty have the same balance on a sample as on all rows: as
    losses are summed over rows, alpha is multiplied by the share of the rows, or of their weights, and C divided by
    it, unless kernels are scaled by their trace, which does the same.

    References
    ----------
    J. Shao and C. F. J. Wu, A general theory for jackknife variance estimation, Annals of Statistics 17 (1989); N.
    Meinshausen and P. Bühlmann, Stability selection, JRSS B 72 (2010).

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 3))
    >>> y = X[:, 0] + 0.1 * rng.normal(size=60)
    >>> model = kw.MKLRegressor(kw.banks.linear_features(3), kw.learners.RLS2(alpha=0.1)).fit(X, y)
    >>> found = weight_stability(model, X, y, n_samples=10)
    >>> found.views[0], float(found.view_frequency[0]), found.unstable()
    ('x0', 1.0, [])
    """
    check_is_fitted(estimator)
    rows = Rows.read(estimator, X, y, params, groups)
    told = rows.told_groups() if choose_again else rows
    fresh = clone(estimator) if choose_again else plainly(estimator)
    weight = np.asarray(rows.params.get("sample_weight", np.ones(len(rows))), dtype=float)
    scaled = not choose_again and not isinstance(resolve(stated(estimator)["normalize"]), Trace)
    tasks = (
        (told, fresh, places, weight[places].sum() / weight.sum() if scaled else 1.0)
        for places in _samples(rows, n_samples, sampling, is_classifier(estimator), seed)
    )
    found, stopped = each_done(_weights_of, tasks, n_jobs, report, "sample", n_samples)
    own = _columns(estimator.model_.weights)
    if any(weights.shape != own.shape for weights, _ in found):
        raise InputError(
            "Samples of the rows have other kernels than the model, whose kernels follow from the data. Name the "
            "kernels, for example kernels=[Linear(), RBF(gamma='median')]."
        )
    samples = np.array([weights for weights, _ in found])
    sources, shares = by_source(estimator, np.array([share for _, share in found]))
    full = by_source(estimator, estimator.model_.weight_shares)[1]
    order = np.argsort(-full, kind="stable")
    low, high, often = _spread(samples, level)
    view_low, view_high, view_often = _spread(shares[:, order], level)
    return WeightStability(
        names=tuple(map(str, estimator.kernel_names_)),
        outputs=outputs_of(estimator),
        weights=own,
        samples=samples,
        low=low,
        high=high,
        frequency=often,
        views=tuple(sources[k] for k in order),
        view_weights=full[order],
        view_low=view_low,
        view_high=view_high,
        view_frequency=view_often,
        level=level,
        interrupted=stopped,
    )


def _spread(samples: Array, level: float) -> tuple[Array, Array, Array]:
    """Percentiles over samples, and the share of samples with a weight."""
    low, high = middle(samples, level)
    return low, high, (samples > 0).mean(axis=0)


def _samples(rows: Rows, number: int, sampling: str, classes: bool, seed: int) -> Iterator[Places]:
    rng = np.random.default_rng(seed)
    if rows.groups is None:
        members: list[Places] = []
        strata = [np.arange(len(rows))]
        if classes and np.ndim(rows.y) == 1:
            strata = [np.flatnonzero(rows.y == one) for one in np.unique(rows.y)]
    else:
        names, place = np.unique(rows.groups, return_inverse=True)
        members = [np.flatnonzero(place == k) for k in range(len(names))]
        strata = [np.arange(len(names))]
    for _ in range(number):
        drawn = np.sort(np.concatenate([_draw(rng, part, sampling) for part in strata]))
        yield np.concatenate([members[k] for k in drawn]) if members else drawn


def _draw(rng: np.random.Generator, part: Places, sampling: str) -> Places:
    if sampling == "bootstrap":
        return rng.choice(part, len(part))
    return rng.choice(part, max(1, -(-len(part) // 2)), replace=False)


def _columns(weights: Array) -> Array:
    """Weights with a column for each output."""
    return np.atleast_2d(weights).T


def _for_share(estimator: Any, share: float) -> Any:
    """An estimator of `plainly` for a share of the rows: losses of fewer rows are worth as much against the penalty."""
    learner = clone(estimator.learner)
    known, parameter = learner.get_params(deep=False), learner.regularization_parameter
    factors = {"C": 1.0 / share, "alpha": share, "relax": share}
    learner.set_params(
        **{
            name: known[name] * factors[name]
            for name in (parameter, "relax")
            if isinstance(known.get(name), float)
        }
    )
    return clone(estimator).set_params(learner=learner)


def _weights_of(rows: Rows, estimator: Any, places: Places, share: float) -> tuple[Array, Array]:
    model = rows.fit(estimator if share == 1.0 else _for_share(estimator, share), places).model_
    return _columns(model.weights), model.weight_shares


#: Heads of columns with their formats.
HEADS = {"weight": ".1%", "low": ".1%", "high": ".1%", "selected in": ".0%"}


@finding(
    "stability",
    title="Stability of weights",
    needs=("model", "training"),
    about="Would other rows give the same weights? The model is fitted on random halves of the rows.",
    counted="halves of the rows",
    usual=50,
    least=2,
)
def _stability(basis: Basis) -> Finding:
    found = weight_stability(basis.model, **basis.training.given, n_samples=basis.count, **basis.how)
    # kernels that never have a weight would fill the file
    kept = np.flatnonzero(np.any(found.weights > 0, axis=1) | np.any(found.frequency > 0, axis=1))
    n, outputs = len(found.samples), [name or "weight" for name in found.outputs]
    kernels = {key: np.round(getattr(found, key)[kept], 8) for key in ("weights", "low", "high", "frequency")}
    names = [found.names[k] for k in kept]
    places = sorted(np.ndindex(kernels["weights"].shape), key=lambda place: -kernels["weights"][place])
    of_kernels = {
        "kernel": [names[m] for m, _ in places],
        **({"class": [outputs[k] for _, k in places]} if len(outputs) > 1 else {}),
        **dict(zip(HEADS, ([part[place] for place in places] for part in kernels.values()), strict=True)),
    }
    columns = (found.view_weights, found.view_low, found.view_high, found.view_frequency)
    of_sources = {"source": found.views, **dict(zip(HEADS, columns, strict=True))}
    meaning = f"Over {n} random halves of the training rows, 2.5 and 97.5 % points."
    unstable = len(found.unstable())
    made = Finding(
        intervals_of(found.views, *columns[:3], n=n),
        f"Weights of the sources, as fractions. {meaning}",
        n,
        "random halves of the training rows",
        found.level,
        form=".1%",
        details={
            "interrupted": found.interrupted,
            "unstable": unstable,
            "outputs": outputs,
            "names": names,
            **{key: part.tolist() for key, part in kernels.items()},
            "sources": dict(zip(found.views, found.view_frequency.tolist(), strict=True)),
        },
        tables=(
            Table.of("stability-sources", "Stability of sources", of_sources, meaning, HEADS),
            Table.of("stability", "Stability of kernel weights", of_kernels, meaning, HEADS),
        ),
    )
    for name in list(found.views)[: MOST_NAMED if len(found.views) > 1 else 0]:
        words = {"name": named(name)}
        made = made.says(
            "which",
            "In 95 % of {n:d} random halves of the rows, {name} has {low:.0%} to {high:.0%} of the weight.",
            words,
            **ends(name),
        ).says(
            "sure",
            "A kernel of {name} has a weight in {v:.0%} of {n:d} random halves of the rows.",
            words,
            v=("details", "sources", name),
            n=("n",),
        )
    if unstable:
        made = made.says(
            "distrust",
            f"{{k:d}} of the kernels with a weight {'has' if unstable == 1 else 'have'} one in fewer than "
            f"{STABLE:.0%} of {{n:d}} random halves of the rows: other rows would select others.",
            k=("details", "unstable"),
            n=("n",),
        )
    return made

"""Would other rows give the same weights? Weights over random halves of the rows, and the sources selected in most."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from kernelweave._checks import InputError
from kernelweave._drawing import percent
from kernelweave._forms import ShortRepr
from kernelweave._parameters import Flag, OneOf, Positive, Whole, checked, renamed
from kernelweave._types import Array, Features
from kernelweave.estimators.parameters import stated
from kernelweave.fitting.model import fractions_of
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
    target_names,
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
from kernelweave.normalizers import Trace, resolve

__all__ = ["WeightStability", "weight_stability"]

#: A source is selected if it is among the largest in at least so many of ten halves.
OF_TEN = 9


@dataclass(frozen=True)
class WeightStability(ShortRepr):
    """Kernel weights over samples of the rows.

    Attributes
    ----------
    names : tuple of str
        All kernels, in the order of the model.
    outputs : tuple of str
        Classes or outputs with weights of their own; one empty name where they share them.
    weights : array of shape (n_kernels, n_outputs)
        Weights of the model itself, as fractions that sum to one over the kernels, like all weights below.
    samples : array of shape (n_done, n_kernels, n_outputs)
        Weights of the fit on each sample of the rows, as fractions too.
    low, high : array of shape (n_kernels, n_outputs)
        Percentiles over the samples.
    views : tuple of str
        Sources, largest first.
    view_weights, view_low, view_high : array of shape (n_views,)
        The same for the weights of views, as `view_weights` has them.
    view_frequency : array of shape (n_views,)
        Fraction of the halves in which a source is among the `largest`; NaN where that is 0.
    largest : int
        Sources that are selected in each half, at most; 0 where there is no selection: the learner gives every kernel
        a weight, samples are not halves, or no number keeps the bound at `max_false`.
    selected : tuple of str
        Sources that are among the `largest` in at least 90 % of the halves.
    bound : float
        On the expected number of false selections; NaN where `largest` is 0.
    level : float
        The fraction of the samples between `low` and `high`.
    interrupted : bool
        Whether fewer samples were done than asked for.
    """

    names: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: Array
    samples: Array
    low: Array
    high: Array
    views: tuple[str, ...]
    view_weights: Array
    view_low: Array
    view_high: Array
    view_frequency: Array
    largest: int
    selected: tuple[str, ...]
    bound: float
    level: float
    interrupted: bool


@renamed(seed="random_state")
@checked
def weight_stability(
    estimator: Model,
    X: Features,
    y: Targets,
    *,
    n_samples: Annotated[int, Whole(2)] = 50,
    sampling: Annotated[str, OneOf("halves", "bootstrap")] = "halves",
    max_false: Positive = 1.0,
    choose_again: Annotated[bool, Flag()] = False,
    groups: OptionalEntries = None,
    params: Params = None,
    level: Level = 0.95,
    n_jobs: Jobs = None,
    random_state: Seed = 0,
    report: Report = None,
) -> WeightStability:
    """Kernel weights over samples of the rows, with intervals, and a selection of sources with a bound on its errors.

    The rows are divided at random into two halves, many times. The spread of the weights over halves estimates that
    over other samples of all n rows (the delete-d jackknife with d = n / 2). Classes are divided into halves, too; a
    class of one row is in both.

    In each half the q sources with the largest weights are counted, those without a weight excepted; a source that
    counts in at least 90 % of the halves is selected. q is the largest number for which

        C q^2 / p <= max_false  and  q <= p / sqrt(3) ,   C = 2 (2 B - k + 1) / (B + 1) ,   k = ceil(1.8 B) ,

    with p sources and B pairs of halves. The left side bounds the expected number of selected sources among those
    that are counted in one half with a probability of at most q / p. These are the false ones if a source that does
    not predict is counted no more often than the average source. It also bounds the probability that there are any.

    Parameters
    ----------
    estimator : fitted MKLRegressor or MKLClassifier
        Fitted on these rows.
    X : array-like, frame, sparse matrix or views
        The rows, in any form that `fit` takes: a table, views, precomputed kernels or indices of a bank.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        Targets of these rows.
    n_samples : int, default=50
        Halves of the rows, or samples.
    sampling : {"halves", "bootstrap"}, default="halves"
        Halves of the rows, or as many rows with repetition, for which there is no selection. Repeated rows are in a
        training fold and in its test fold where `choose_again` chooses by folds.
    max_false : float, default=1.0
        Tolerated expected number of false selections.
    choose_again : bool, default=False
        Choose the regularisation parameter again in every sample, by the folds of the estimator; otherwise it is that
        of the estimator, for the number of rows of the sample.
    groups : array-like of shape (n_rows,), optional
        Whole groups are drawn, and `fit` gets them.
    params : dict of str to array, optional
        Arguments of `fit` with an entry for each row, such as ``{"sample_weight": w}``.
    level : float, default=0.95
        Fraction of samples that intervals cover.
    n_jobs : int, optional
        Samples at the same time.
    random_state : int, default=0
        Seed of the random numbers: the same one gives the same result.
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

    The bound assumes independent rows, and that the fraction of pairs in which both halves count a source has a
    unimodal distribution. A learner that gives every kernel a weight (`learner.sparse` is false) selects nothing, so
    that a frequency has no meaning. Of sources with equal weights all are counted, or none where that were more than q.

    References
    ----------
    J. Shao and C. F. J. Wu, A general theory for jackknife variance estimation, Annals of Statistics 17 (1989); N.
    Meinshausen and P. Bühlmann, Stability selection, JRSS B 72 (2010); R. D. Shah and R. J. Samworth, Variable
    selection with error control: another look at stability selection, JRSS B 75 (2013), Theorem 2.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 10))
    >>> y = X[:, 0] + X[:, 1] + 0.1 * rng.normal(size=60)
    >>> model = kw.MKLRegressor(kw.banks.linear_features(10), kw.learners.RLS2(alpha=0.1)).fit(X, y)
    >>> found = weight_stability(model, X, y, n_samples=20)
    >>> sorted(found.selected), found.largest, round(found.bound, 2)
    (['x0', 'x1'], 4, 0.87)
    """
    rows = Rows.read(estimator, X, y, params, groups)
    fresh = clone(estimator) if choose_again else plainly(estimator)
    weight = np.asarray(rows.params.get("sample_weight", np.ones(len(rows))), dtype=float)
    scaled = not choose_again and not isinstance(resolve(stated(estimator)["normalize"]), Trace)
    tasks = (
        (rows, fresh, places, weight[places].sum() / weight.sum() if scaled else 1.0)
        for places in _samples(rows, n_samples, sampling, is_classifier(estimator), random_state)
    )
    found, stopped = each_done(_weights_of, tasks, n_jobs, report, "sample", n_samples)
    own = _columns(estimator.model_.weights)
    if any(weights.shape != own.shape for weights, _ in found):
        raise InputError(
            "Samples of the rows have other kernels than the model, whose kernels follow from the data: with fewer "
            "rows some columns are read in another way, such as names of rows. Leave these out, or name the kernels."
        )
    samples = np.array([weights for weights, _ in found])
    sources, shares = estimator.model_.by_source(np.array([share for _, share in found]))
    _, full = estimator.model_.sources
    order = np.argsort(-full, kind="stable")
    shares, views = shares[:, order], tuple(sources[k] for k in order)
    low, high = middle(samples, level)
    view_low, view_high = middle(shares, level)
    # of a pair without its second half none
    halves = shares[: len(shares) // 2 * 2] if sampling == "halves" else shares[:0]
    largest, bound = 0, math.nan
    if len(halves) and estimator.model_.learner.sparse:
        largest, bound = permitted(len(views), len(halves) // 2, max_false)
    noted = _largest(halves, largest)
    return WeightStability(
        names=tuple(map(str, estimator.kernel_names_)),
        outputs=outputs_of(estimator),
        weights=own,
        samples=samples,
        low=low,
        high=high,
        views=views,
        view_weights=full[order],
        view_low=view_low,
        view_high=view_high,
        view_frequency=noted.mean(axis=0) if largest else np.full(len(views), math.nan),
        largest=largest,
        selected=tuple(
            name
            for name, count in zip(views, noted.sum(axis=0), strict=True)
            if largest and count >= _needed(len(halves))
        ),
        bound=bound,
        level=level,
        interrupted=stopped,
    )


def _needed(n_halves: int) -> int:
    """In how many halves a selected source is among the largest."""
    return -(-OF_TEN * n_halves // 10)


def permitted(n_sources: int, n_pairs: int, max_false: float) -> tuple[int, float]:
    """The largest number of sources in each half for which the bound is at most `max_false`, and the bound.

    Returns
    -------
    int
        0 where one source is too many.
    float
        The bound on the expected number of false selections; NaN where the number is 0.
    """
    n_halves = 2 * n_pairs
    # Theorem 2 of Shah and Samworth for a threshold above 3/4, with the threshold as a multiple of 1 / n_halves
    factor = 2.0 * (n_halves - _needed(n_halves) + 1) / (n_pairs + 1) / n_sources
    most = int(min(n_sources / math.sqrt(3.0), math.sqrt(max_false / factor) + 1e-9))
    return most, factor * most**2 if most else math.nan


def _largest(shares: Array, number: int) -> NDArray[np.bool_]:
    """Which sources of every row are among the largest and have a weight; of equal ones all or none."""
    return shares > -np.partition(-shares, number, axis=1)[:, number : number + 1]


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
    for k in range(number):
        if sampling == "bootstrap":
            parts = [rng.choice(one, len(one)) for one in strata]
        else:
            if k % 2 == 0:
                mixed = [rng.permutation(one) for one in strata]
            # a class of one row is in both halves
            parts = [one[k % 2 :: 2] if len(one) > 1 else one for one in mixed]
        drawn = np.sort(np.concatenate(parts))
        yield np.concatenate([members[k] for k in drawn]) if members else drawn


def _columns(weights: Array) -> Array:
    """Weights as fractions, with a column for each output."""
    return fractions_of(np.atleast_2d(weights).T)


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
HEADS = {"weight": ".1%", "low": ".1%", "high": ".1%"}


@finding(
    "stability",
    title="Stability of weights",
    needs=("model", "training"),
    about="Would other rows give the same weights, and select the same sources? The model is fitted on random halves "
    "of the rows.",
    counted="halves of the rows",
    usual=50,
    least=2,
)
def _stability(basis: Basis) -> Finding:
    given = {**basis.training.given, **basis.how}
    found = weight_stability(basis.model, n_samples=basis.count, max_false=basis.max_false, **given)
    # kernels that never have a weight would fill the file
    kept = np.flatnonzero(np.any(found.weights > 0, axis=1) | np.any(found.samples > 0, axis=(0, 2)))
    n, outputs = len(found.samples), [name or "weight" for name in found.outputs]
    kernels = {key: np.round(getattr(found, key)[kept], 8) for key in ("weights", "low", "high")}
    names = [found.names[k] for k in kept]
    places = sorted(np.ndindex(kernels["weights"].shape), key=lambda place: -kernels["weights"][place])
    several = "label" if target_names(basis.model) else "class"
    kind = several if is_classifier(basis.model) else "target"
    of_kernels = {
        "kernel": [names[m] for m, _ in places],
        **({kind: [outputs[k] for _, k in places]} if len(outputs) > 1 else {}),
        **dict(zip(HEADS, ([part[place] for place in places] for part in kernels.values()), strict=True)),
    }
    columns = (found.view_weights, found.view_low, found.view_high)
    of_sources = {"source": found.views, **dict(zip(HEADS, columns, strict=True))}
    meaning = f"Over {n} random halves of the training rows, 2.5 and 97.5 % points."
    formats, note = HEADS, meaning
    if found.largest:
        head = f"among the {found.largest} largest"
        yes = ["yes" if name in found.selected else "no" for name in found.views]
        of_sources = {**of_sources, head: found.view_frequency, "selected": yes}
        formats = {**HEADS, head: ".0%"}
        often = percent(OF_TEN / 10)
        note = f"{meaning} A source is selected if it is among the largest in at least {often} of the halves."
    made = Finding(
        intervals_of(found.views, *columns, n=n),
        f"Weights of the sources, as fractions. {meaning}",
        n,
        "random halves of the training rows",
        found.level,
        form=".1%",
        details={
            "interrupted": found.interrupted,
            "outputs": outputs,
            "names": names,
            **{key: part.tolist() for key, part in kernels.items()},
            "sources": dict(zip(found.views, found.view_frequency.tolist(), strict=True)),
            "largest": found.largest,
            "selected": len(found.selected),
            "bound": found.bound,
            "tolerated": basis.max_false,
        },
        tables=(
            Table.of("stability-sources", "Stability of sources", of_sources, note, formats),
            Table.of("stability", "Stability of kernel weights", of_kernels, meaning, HEADS),
        ),
    )
    if len(found.views) < 2:
        return made
    for name in found.views[:MOST_NAMED]:
        made = made.says(
            "which",
            "In 95 % of {n:d} random halves of the rows, {name} has {low:.0%} to {high:.0%} of the weight.",
            {"name": named(name)},
            **ends(name),
        )
    return _says_selected(made, found, basis.model.model_.learner.sparse)


def _says_selected(made: Finding, found: WeightStability, sparse: bool) -> Finding:
    """What is selected, that nothing is, or why that cannot be told."""
    if not sparse:
        return made.says(
            "sure",
            "This learner gives every kernel that it uses a weight. It does not select sources, so look at the "
            "intervals of the weights.",
        )
    if not found.largest:
        return made.says(
            "sure",
            "Which sources would be selected from other rows cannot be told: there are too few sources or halves of "
            "the rows to bound the number of false selections by {most:.3g}.",
            most=("details", "tolerated"),
        )
    shown = found.selected[:MOST_NAMED]
    more = len(found.selected) - len(shown)
    words = {"names": ", ".join(map(named, shown)) + (f" and {more} more" if more else "")}
    rule = f"among the {{q:d}} largest sources in at least {percent(OF_TEN / 10)} of {{n:d}} random halves of the rows"
    numbers = {"q": ("details", "largest"), "n": ("n",), "bound": ("details", "bound")}
    if not shown:
        return made.says(
            "sure", f"No source is selected: none is {rule}. That does not show that none matters.", **numbers
        )
    return made.says(
        "sure",
        f"{{k:d}} {'source is' if len(found.selected) == 1 else 'sources are'} selected, {rule}: {{names}}. On "
        "average at most {bound:.2f} sources that predict nothing are selected in this way.",
        words,
        k=("details", "selected"),
        **numbers,
    )

"""Importances of columns and views by kernel weights, and a transformer that selects views."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from kernelweave._checks import InputError
from kernelweave._parameters import Flag, Number, ReadableSignature, Whole, check_values, shown
from kernelweave._types import Features, Target
from kernelweave.estimators.classifier import MKLClassifier
from kernelweave.estimators.estimator import BaseMKL
from kernelweave.estimators.sources import ViewPlace, places_of
from kernelweave.fitting.missing import groups_of
from kernelweave.fitting.source import TableSource
from kernelweave.views import Views, ViewsEncoder, holds_views
from kernelweave.views.selection import listing

__all__ = ["SelectViews", "view_shares"]

Array = NDArray[np.float64]


def view_shares(estimator: BaseMKL, views: list[str]) -> dict[str, float]:
    """Shares of views in the weights of all kernels, averaged over outputs; they sum to 1.

    A kernel on several views, a sum or a product, gives each an equal part of its weight.
    """
    weights = estimator.model_.weight_shares
    shares = dict.fromkeys(views, 0.0)
    for kernel, weight in zip(estimator.kernels_, weights, strict=True):
        own = list(dict(groups_of(kernel)))
        for view in own:
            if view in shares:
                shares[view] += float(weight) / len(own)
    return shares


class SelectViews(MetaEstimatorMixin, TransformerMixin, BaseEstimator):
    """Keep the views whose kernels have more than a certain share of the weight.

    Parameters
    ----------
    estimator : MKLClassifier, MKLRegressor or one of their CV variants, optional
        The estimator whose weights select views. A clone is fitted, unless `prefit`. Default:
        ``MKLClassifier(learner="simple", C=10.0)``.
    threshold : float, default=0.01
        Views with a larger share of the sum of weights are kept, from 0 (any weight) to 1.
    max_views : int, optional
        Largest number of views, those with the largest shares.
    prefit : bool, default=False
        Whether `estimator` is fitted already.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    shares_ : dict of str to float
        Share of every view, averaged over classes or outputs.
    views_ : tuple of str
        The selected views, in the order of X.

    Notes
    -----
    X are several views (a dict, a list, `kernelweave.Views`), or one table whose columns the parameter `views` of the
    estimator, or `kernelweave.banks.views`, groups. `transform` returns `Views` of the selected ones, and needs no
    others, so that only these must be measured for new rows. For columns of one table there is scikit-learn's
    `SelectFromModel`, which reads `feature_importances_` or `coef_` of the estimators.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> from sklearn.pipeline import make_pipeline
    >>> rng = np.random.default_rng(0)
    >>> data = kw.Views({"rna": rng.normal(size=(60, 5)), "noise": rng.normal(size=(60, 5))})
    >>> y = data["rna"][:, 0] > 0
    >>> svm = kw.MKLClassifier([kw.kernels.Linear()], learner="simple", C=1.0)
    >>> model = make_pipeline(kw.SelectViews(svm, max_views=1), svm).fit(data, y)
    >>> model[0].views_, model.predict({"rna": data["rna"]}).shape
    (('rna',), (60,))
    """

    __signature__ = ReadableSignature()

    estimator_: BaseMKL
    shares_: dict[str, float]
    views_: tuple[str, ...]

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        threshold: Annotated[float, Number(least=0, below=1)] = 0.01,
        max_views: Annotated[int | None, Whole(1) | None] = None,
        prefit: Annotated[bool, Flag()] = False,
    ) -> None:
        self.estimator = estimator
        self.threshold = threshold
        self.max_views = max_views
        self.prefit = prefit

    def fit(
        self,
        X: Features,
        y: Target | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> SelectViews:
        """Select views by the weights of their kernels.

        Parameters
        ----------
        X : dict, list or `kernelweave.Views` of tables, or one table
            The views, or one table whose columns the parameter `views` of the estimator divides.
        y : array-like
            Targets or labels, for the estimator.
        sample_weight : array-like of shape (n_samples,), optional
            Passed to the `fit` of the estimator.
        groups : array-like of shape (n_samples,), optional
            Groups of rows, which the folds of the estimator keep together.

        Returns
        -------
        self
        """
        check_values(self, self.get_params(deep=False))
        chosen = self.estimator
        if chosen is None:
            chosen = MKLClassifier(learner="simple", C=10.0)
        if not isinstance(chosen, BaseMKL):
            raise InputError(
                f"`estimator` must be an MKLClassifier, MKLRegressor or one of their CV variants, got {shown(chosen)}."
            )
        if self.prefit:
            check_is_fitted(chosen)
            self.estimator_ = chosen
        else:
            given = {"sample_weight": sample_weight, "groups": groups}
            self.estimator_ = clone(chosen).fit(X, y, **{k: v for k, v in given.items() if v is not None})
        views = list(self._places())
        self.shares_ = view_shares(self.estimator_, views)
        large = sorted(views, key=lambda view: -self.shares_[view])
        kept = [view for view in large if self.shares_[view] > self.threshold][: self.max_views]
        if not kept:
            raise InputError(
                f"No view has more than {self.threshold:g} of the weight; the largest share is "
                f"{self.shares_[large[0]]:.3g}, of {large[0]!r}. Use a smaller threshold."
            )
        self.views_ = tuple(view for view in views if view in kept)
        return self

    def _places(self) -> dict[str, ViewPlace]:
        """The views of the training rows."""
        source = self.estimator_.model_.source
        places = (
            places_of(source.raw, self.estimator_.views, self.estimator_.kernels)
            if isinstance(source, TableSource)
            else None
        )
        if places is None:
            raise InputError(
                "SelectViews chooses among views, and X is one table. Pass a dict of tables, or an estimator with "
                "views={'rna': 'g_*', ...}; for single columns use scikit-learn's SelectFromModel."
            )
        return places

    def transform(self, X: Features) -> Views:
        """Return the selected views.

        Parameters
        ----------
        X : dict, list or `kernelweave.Views` of tables, or one table
            Further views may be missing.

        Returns
        -------
        Views
        """
        check_is_fitted(self, "views_")
        model = self.estimator_.model_
        if isinstance(model.encoder, ViewsEncoder):
            if not holds_views(X):
                raise InputError(
                    f"SelectViews was fitted on the views {listing(list(self.shares_))}, got one table. Pass a dict."
                )
            given = Views(X)
            lacking = [view for view in self.views_ if view not in given.names]
            if lacking:
                raise InputError(
                    f"X must have the selected views, {listing(self.views_)}, but lacks {listing(lacking)}. Add "
                    "them."
                )
            return Views({view: given[view] for view in self.views_})
        model.encode(X)
        table: Any = X
        found, places = {}, self._places()
        for view in self.views_:
            own, names = places[view].columns, places[view].table.names
            if hasattr(table, "iloc"):
                found[view] = table.iloc[:, own]
            elif names is not None and hasattr(table, "select"):
                found[view] = table.select(list(names))
            else:
                found[view] = table.tocsr()[:, own] if hasattr(table, "tocsr") else np.asarray(table)[:, own]
        return Views(found)

    def get_support(self, indices: bool = False) -> NDArray[np.bool_] | NDArray[np.intp]:
        """The selected views: a mask over the views of X, or their positions.

        Parameters
        ----------
        indices : bool, default=False
            Whether positions are returned instead of a mask.

        Returns
        -------
        array
        """
        check_is_fitted(self, "views_")
        mask = np.array([view in self.views_ for view in self.shares_])
        return np.flatnonzero(mask) if indices else mask

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the selected views.

        Parameters
        ----------
        input_features : ignored
            Accepted because scikit-learn passes it; views have names of their own.

        Returns
        -------
        array of str
        """
        check_is_fitted(self, "views_")
        return np.array(self.views_, dtype=object)

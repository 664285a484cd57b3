"""The interface between learners and estimators."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from kernelweave._checks import InputError
from kernelweave._declarations import Declared, declared
from kernelweave._docstrings import plain, read_docstring
from kernelweave._parameters import check_values
from kernelweave.gram import Gram
from kernelweave.results import Path, Solution

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Info:
    """Kernels and targets, as passed to learners.

    Attributes
    ----------
    gram : Gram
    y : array of shape (n_samples, n_outputs)
        For classification -1 and 1.
    scale : array of shape (n_kernels,)
        Factors s_m of the kernels.
    sample_weight : array of shape (n_samples,) or None
    classification : bool
    content : array of int, shape (n_samples,), or None
        Position of each row among the distinct ones, for learners that validate inside a fit. Without it all rows are
        treated as distinct, in their order.
    report : callable or None
        Called with the steps within a fit, by learners that iterate.
    start : array of shape (n_kernels,) or None
        Weights with which a path may begin, for learners that use them.
    """

    gram: Gram
    y: Array
    scale: Array
    sample_weight: Array | None = None
    classification: bool = False
    content: NDArray[np.intp] | None = None
    report: Callable[[str], bool] | None = None
    start: Array | None = None


class _FormerName:
    """The former name of `regularization_parameter`, of classes and of objects; it warns."""

    def __get__(self, learner: object, owner: type[Learner]) -> str:
        warn_of_former_name()
        return owner.regularization_parameter


def warn_of_former_name() -> None:
    """Warn that `strength` has another name."""
    warnings.warn(
        "`strength` of learners is now `regularization_parameter`; the old name goes with the next version.",
        FutureWarning,
        stacklevel=3,
    )


class Learner(BaseEstimator, ABC):
    """Base class of learners.

    A learner solves for one regularisation parameter or along a path; estimators do the rest. Inside, the
    regularisation parameter is always `alpha`, larger for more regularisation; learners with a C take ``alpha = 1 /
    C``.
    """

    #: Name of the regularisation parameter, "alpha" or "C".
    regularization_parameter = "alpha"
    #: Former name of `regularization_parameter`.
    strength = _FormerName()
    #: Whether the intercept is learnt, instead of fixed beforehand.
    own_intercept = False
    #: Whether the solution is the mean of a Gaussian process.
    bayesian = False
    #: Whether a single regularisation parameter takes many steps, which `solve` reports.
    iterates = False
    #: Whether it validates inside a fit, on folds made from the content of the rows; see `folds.deal`.
    validates = False
    #: Whether a path can begin with weights: see `Info.start`.
    begins = False
    #: Whether it can be used for regression.
    regression = True
    #: Meaning of the gap, as shown in reports.
    certificate = "The objective is at most the gap above its optimum."

    def __init_subclass__(cls, **options: Any) -> None:
        """Read the former name of `regularization_parameter`."""
        super().__init_subclass__(**options)
        if "strength" in vars(cls):
            warn_of_former_name()
            cls.regularization_parameter = vars(cls)["strength"]

    def check(self) -> None:
        """Raise `InputError` for parameters that cannot be used: those that break the rules of the constructor."""
        check_values(self, self.get_params(deep=False))

    def check_here(self) -> None:
        """Raise `InputError` if this computer does not have what the parameters need."""

    def check_task(self, classification: bool) -> None:
        """Raise `InputError` for a task that the learner or its loss does not support."""
        if not self.regression and not classification:
            raise InputError(
                f"{type(self).__name__} is for classification. Use MKLClassifier, or another learner."
            )

    def log_probability(self, values: Array) -> Array | None:
        """Logarithms of the probabilities of label 1 at decision values, if the loss gives them; else None."""
        return None

    @property
    def on_features(self) -> bool:
        """Whether it solves on explicit features, `FeatureGram`, without matrices of rows by rows."""
        return False

    @property
    def most_features(self) -> int | None:
        """The largest number of features that it solves for at once; None for any."""
        return None

    def features_pay(self, n_rows: int, n_features: int) -> bool:
        """Whether it solves on so many explicit features, and these are cheaper than the kernels of the rows."""
        return self.on_features and n_features <= n_rows

    @property
    def has_probabilities(self) -> bool:
        """Whether the loss gives probabilities."""
        try:
            return self.log_probability(np.zeros((1, 1))) is not None
        except InputError:
            # a loss that the learner does not support
            return False

    @classmethod
    def settings(cls) -> dict[str, Declared]:
        """Settings of command line and forms, by their names there: all parameters but alpha or C."""
        own: Any = cls
        found = declared(own).values()
        return {one.setting: one for one in found if one.setting and one.name != cls.regularization_parameter}

    @classmethod
    def reference(cls) -> str:
        """The reference to cite; empty if there is none."""
        return plain(read_docstring(cls.__doc__).sections.get("References", ""))

    @abstractmethod
    def requested(self) -> float | None:
        """The regularisation parameter in the parameters, as alpha; None if it is to be chosen."""

    def default_alphas(self, n_alphas: int) -> Array | None:
        """A descending grid that does not depend on the data, or None for one that does."""
        return None

    def given_alphas(self) -> Array | None:
        """The regularisation parameter that is fixed although another parameter is to be chosen, or None."""
        return None

    def relax_grid(self, alphas: Array) -> Array | None:
        """Values of `relax` to choose from at every point of a path, (n_alphas, n_relax), or None for none."""
        return None

    def layer_names(self) -> list[list[str]]:
        """Names of the kernels of every layer above the sum of base kernels, the lowest first."""
        return []

    @abstractmethod
    def solve(self, info: Info, alpha: float) -> Solution:
        """Solve at one regularisation parameter."""

    @abstractmethod
    def path(
        self,
        info: Info,
        alphas: Array,
        *,
        tol: float | None = None,
        callback: Callable[[int, Solution], object] | None = None,
    ) -> Path[Solution]:
        """Solve along descending regularisation parameters with warm starts.

        Parameters
        ----------
        info : Info
        alphas : array of shape (n_alphas,)
        tol : float, optional
            Coarser than the learner's own, for solutions that are only scored.
        callback : callable, optional
            ``callback(position, solution)``; a true value ends the path.
        """

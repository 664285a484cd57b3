"""The base class of learners, their names, and what estimators hand to them."""

from __future__ import annotations

import pathlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from kernelweave._checks import InputError, check_known
from kernelweave._declarations import Declaration, Declared, declared
from kernelweave._docstrings import plain, read_docstring
from kernelweave._extensions import load_extensions
from kernelweave._lazy import lines_of
from kernelweave._parameters import MaxTime, Tol, check_values, with_present_names
from kernelweave.gram import FeatureStack, Gram
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.steps import Metric
from kernelweave.machines.loss import Loss
from kernelweave.mkl.problem import Problem
from kernelweave.results import Path, Solution

Array = NDArray[np.float64]

#: What a class with a short name has.
_NAMED = re.compile(r"^    name\b.*=\s*[\"']", re.MULTILINE)


class Registry(MutableMapping[str, type["Learner"]]):
    """Classes by short names; those in a stub, which has their short names as comments, are imported on first use.

    A class enters, also in the place of its line in the stub, when it is defined. To look for names and to list them
    imports nothing but files of the folder that define classes with a `name` and are not in the stub.
    """

    def __init__(self, file: str, package: str) -> None:
        lines = lines_of(file)
        self._places = {short: f"kernelweave{place}.{name}" for place, name, short in lines if short}
        self._classes: dict[str, type[Learner]] = {}
        listed = {place.rpartition(".")[2] for place, _, _ in lines}
        self._others = [
            f"{package}.{own.stem}"
            for own in sorted(pathlib.Path(file).parent.glob("*.py"))
            if own.stem not in listed and _NAMED.search(own.read_text(encoding="utf8"))
        ]

    def _all(self) -> dict[str, str]:
        while self._others:
            import_module(self._others.pop())
        return self._places

    def place(self, name: str) -> str:
        """Module and name of a class, which need not be imported; empty for an unknown short name."""
        return self._places.get(name, "")

    def __getitem__(self, name: str) -> type[Learner]:
        if name not in self._classes:
            place = self._places.get(name) or self._all()[name]
            import_module(place.rpartition(".")[0])
        return self._classes[name]

    def __setitem__(self, name: str, value: type[Learner]) -> None:
        self._places[name], self._classes[name] = f"{value.__module__}.{value.__qualname__}", value

    def __delitem__(self, name: str) -> None:
        del self._places[name], self._classes[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places or name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


#: Learners by the short names that ``learner=`` takes: those of this package, and every class with a `name` as soon as
#: it is defined.
LEARNERS = Registry(__file__, "kernelweave.learners")


@dataclass(frozen=True, eq=False)
class TrainingSet:
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
    groups : array of int, shape (n_samples,), or None
        Of rows that share a fold there.
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
    groups: NDArray[np.intp] | None = None
    report: Callable[[str], bool] | None = None
    start: Array | None = None


class Learner(Declaration, BaseEstimator, ABC):
    """Base class of learners.

    A learner is its parameters: annotated fields with defaults, which its constructor takes by name. It solves for one
    regularisation parameter or along a path; estimators do the rest. Inside, the regularisation parameter is always
    `alpha`, larger for more regularisation; learners with a C take ``alpha = 1 / C``.

    Parameters
    ----------
    tol
        Relative duality gap at which the solver stops.
    max_time
        Seconds for every problem: each class, fold and C. What was reached is used, and its gap is reported.
    """

    #: Short name for ``learner=``; a class without one is used as an object only.
    name: ClassVar[str] = ""
    #: The question below which forms list it, one of `kernelweave_app.runs.questions`; without one it is "your own".
    question: ClassVar[str] = ""
    #: Name of the regularisation parameter, "alpha" or "C".
    regularization_parameter: ClassVar[str] = "alpha"
    #: Whether the intercept is learnt, instead of fixed beforehand.
    own_intercept: ClassVar[bool] = False
    #: Whether the solution is the mean of a Gaussian process.
    bayesian: ClassVar[bool] = False
    #: Whether a single regularisation parameter takes many steps, which `solve` reports.
    iterates: ClassVar[bool] = False
    #: Whether it validates inside a fit, on folds made from the content of the rows; see `folds.deal`.
    validates: ClassVar[bool] = False
    #: Whether a path can begin with weights: see `TrainingSet.start`.
    begins: ClassVar[bool] = False
    #: Whether all weights are parameters of one kernel, as `kernel_parameters_` has them.
    one_kernel: ClassVar[bool] = False
    #: Whether it can be used for regression.
    regression: ClassVar[bool] = True
    #: Learnt parameters of the kernel of the last layer.
    learnt: ClassVar[tuple[str, ...]] = ()
    #: Meaning of the gap, as shown in reports.
    certificate: ClassVar[str] = "The objective is at most the gap above its optimum."

    tol: Tol = 1e-8
    max_time: MaxTime = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Make it known by its name."""
        super().__init_subclass__(**options)
        name = vars(cls).get("name")
        if not name:
            return
        known = LEARNERS.place(name)
        if known and known != f"{cls.__module__}.{cls.__qualname__}":
            raise InputError(
                f"There is a learner {name!r} already, {known.rpartition('.')[2]}. Take another `name`."
            )
        LEARNERS[name] = cls

    #: Whether no learner was stated, only parameters of the one that follows from those of the estimator.
    _followed: ClassVar[bool] = False

    def __sklearn_clone__(self) -> Self:
        new = super().__sklearn_clone__()
        new.__dict__["_followed"] = self._followed
        return new

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name.

        Parameters
        ----------
        **params : dict
            Parameters by name; a former name sets the present one, with a warning. Those of an object, such as a loss
            or a set of weights, after two underscores, as in ``loss__delta=1.0``.

        Returns
        -------
        Learner
            Itself.

        Raises
        ------
        InputError
            A value that has no such parameter.
        """
        with_present_names(params, type(self).former, type(self).__name__)
        known = self.get_params(deep=False) | params
        for name in [name for name in params if "__" in name]:
            outer, _, inner = name.partition("__")
            part = known.get(outer)
            if outer not in known or hasattr(part, "set_params"):
                continue
            own = (
                [field.name for field in fields(part)]
                if is_dataclass(part) and not isinstance(part, type)
                else []
            )
            if inner not in own:
                has = f"has {', '.join(own)}" if own else "has none"
                raise InputError(
                    f"`{name}` is a parameter of `{outer}`, and {part!r} {has}. Set `{outer}` itself."
                )
            # these objects are values, and do not change
            known[outer] = params[outer] = replace(part, **{inner: params.pop(name)})
        return super().set_params(**params)

    def check(self) -> None:
        """Raise `InputError` for parameters that cannot be used: those that break the rules of their fields."""
        check_values(self, self.get_params(deep=False))

    def check_here(self) -> None:
        """Raise `InputError` if this computer does not have what the parameters need."""

    def check_task(self, classification: bool) -> None:
        """Raise `InputError` for a task that the learner or its loss does not support.

        Parameters
        ----------
        classification : bool
            Whether the targets are classes rather than numbers.
        """
        if not self.regression and not classification:
            raise InputError(
                f"{type(self).__name__} is for classification. Use MKLClassifier, or another learner."
            )

    def log_probability(self, values: Array) -> Array | None:
        """Logarithms of the probabilities of label 1 at decision values, if the loss gives them; else None.

        Parameters
        ----------
        values : array of shape (n_rows, n_outputs)
            Decision values.
        """
        return None

    def prediction(self, values: Array) -> Array:
        """Predictions of numbers from decision values: these themselves, unless the loss has a link.

        Parameters
        ----------
        values : array of shape (n_rows, n_outputs)
            Decision values.
        """
        return values

    def fold_classes(self, y: Array) -> Array | None:
        """Classes of rows that the training rows of every fold need some of, where targets are numbers; None without.

        Parameters
        ----------
        y : array of shape (n_samples,)
            Targets.
        """
        return None

    @property
    def scoring_loss(self) -> Loss | None:
        """The loss by which folds of numbers choose; None for the squared error."""
        return None

    @property
    def sparse(self) -> bool:
        """Whether kernels may have no weight."""
        return True

    @property
    def on_features(self) -> bool:
        """Whether it solves on explicit features, `FeatureGram`, without matrices of rows by rows."""
        return False

    @property
    def most_features(self) -> int | None:
        """The largest number of features that it solves for at once; None for any."""
        return None

    def features_pay(self, n_rows: int, n_features: int) -> bool:
        """Whether the learner solves on explicit features, and they are cheaper than the kernels of the rows.

        Parameters
        ----------
        n_rows : int
            Number of training rows.
        n_features : int
            Number of features of all kernels together.
        """
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
        """A descending grid that does not depend on the data, or None for one that does.

        Parameters
        ----------
        n_alphas : int
            Number of regularisation parameters.
        """
        return None

    def given_alphas(self) -> Array | None:
        """The regularisation parameter that is fixed although another parameter is to be chosen, or None."""
        return None

    def relax_grid(self, alphas: Array) -> Array | None:
        """Values of `relax` to choose from at every point of a path, (n_alphas, n_relax), or None for none.

        Parameters
        ----------
        alphas : array of shape (n_alphas,)
            Regularisation parameters of the path.
        """
        return None

    def relaxed_near(self, share: float, few: bool = False) -> Learner:
        """A learner that chooses `relax` among a few values near one fraction of every alpha of a path.

        Parameters
        ----------
        share : float
            The fraction of alpha.
        few : bool
            Whether the same rows chose it, so that fewer values are enough.
        """
        return self

    @property
    def column_step(self) -> Metric | None:
        """The step that prepares the columns of default kernels after others, if it has one."""
        return None

    def prepared(self, kernel: Kernel) -> Kernel:
        """A kernel of the user as the learner takes it.

        Parameters
        ----------
        kernel : Kernel
            The kernel.
        """
        return kernel

    def layer_names(self) -> list[list[str]]:
        """Names of the kernels of every layer above the sum of base kernels, the lowest first."""
        return []

    def solve(self, training: TrainingSet, alpha: float) -> Solution:
        """Solve at one regularisation parameter.

        Parameters
        ----------
        training : TrainingSet
            Kernels and targets.
        alpha : float
            The regularisation parameter; of margin learners 1 / C.
        """
        return self.path(training, np.array([alpha])).solutions[0]

    @abstractmethod
    def problem(self, kernels: Gram | FeatureStack, y: Array) -> Problem:
        """What is solved at the parameters of the learner.

        Parameters
        ----------
        kernels : Gram or FeatureStack
            Kernels of the training rows.
        y : array of shape (n_samples,), or (n_samples, n_outputs) for outputs that share their weights
            Targets; for classification -1 and 1.
        """

    @abstractmethod
    def path(
        self,
        training: TrainingSet,
        alphas: Array,
        *,
        tol: float | None = None,
        callback: Callable[[int, Solution], object] | None = None,
    ) -> Path[Solution]:
        """Solve along descending regularisation parameters with warm starts.

        Parameters
        ----------
        training : TrainingSet
            Kernels and targets.
        alphas : array of shape (n_alphas,)
            Regularisation parameters, descending; of margin learners 1 / C.
        tol : float, optional
            Coarser than the learner's own, for solutions that are only scored.
        callback : callable, optional
            ``callback(position, solution)``; a true value ends the path.
        """


def resolve(learner: str | Learner) -> Learner:
    """Turn a short name or an object into a learner.

    Parameters
    ----------
    learner : str or Learner
        What estimators take as `learner`. A name gives the learner with its defaults; an unknown one is an error that
        lists the known ones.

    Returns
    -------
    Learner
    """
    if isinstance(learner, Learner):
        chosen = learner
    elif isinstance(learner, str):
        kind = LEARNERS.get(learner)
        if kind is None:
            load_extensions()
            kind = LEARNERS[check_known(learner, LEARNERS, "learner")]
        chosen = kind()
    else:
        raise InputError(
            f"`learner` must be a name ({', '.join(map(repr, LEARNERS))}) or a learner, got {learner!r}."
        )
    chosen.check()
    return chosen

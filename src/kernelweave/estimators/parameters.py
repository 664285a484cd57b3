"""The parameters that all estimators share, and the learner that follows from them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Self

from sklearn.base import BaseEstimator, ClassifierMixin, clone

from kernelweave import learners, recipe
from kernelweave._checks import InputError
from kernelweave._errors import meant
from kernelweave._parameters import Flag, Function, Number, OneOf, ReadableSignature, Text, Whole
from kernelweave._types import ColumnsLike, KernelsLike
from kernelweave.banks import DefaultViews
from kernelweave.estimators.defaults import default_learner
from kernelweave.estimators.sources import APPROXIMATION, CELLS, MISSING_VIEWS
from kernelweave.kernels.maps import FeatureMap
from kernelweave.kernels.stationary import Width
from kernelweave.normalizers import Normalizer

__all__ = ["Parameters", "stated"]


@dataclass(repr=False, eq=False)
class Parameters(BaseEstimator):
    """The parameters of estimators: a field is a parameter, with its rule, its default and its description here.

    Parameters
    ----------
    kernels : list of kernels, KernelBank, "precomputed" or None, default=None
        None takes kernels by what the training rows hold, and leaves out those that are noise, see
        `kernelweave.banks.default` and `explain_defaults`; `kernelweave.banks.views` does so for groups of columns.
        With a `KernelBank` X is one column of sample indices; with "precomputed" X has shape (n_rows, n_train,
        n_kernels). With several views a list is used for each of them, and a dict gives the kernels of each.
    learner : str, Learner or None, default=None
        How the weights are found; its parameters can be set as ``learner__alpha``. None is "rls2", or "lp" with p = 2
        if there is a `C`. If kernels were left out too, "rls2" has ``relax="auto"``.
    C : float or "auto", optional
        Regularisation parameter of learners with a C, such as "simple", in place of the learner's own; larger fits the
        data more.
    alpha : float or "auto", optional
        Regularisation parameter of "rls2", in place of the learner's own; larger fits the data less.
    scoring : str or callable, optional
        The score that chooses C or alpha: any scorer of scikit-learn, such as "balanced_accuracy", "neg_log_loss" or
        "r2". Default: the accuracy, or the squared error. Sample weights are used if the scorer accepts them. The score
        is one of the test rows of all folds together; of "roc_auc" and "average_precision", which compare rows, and of
        a function it is the mean over folds.
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
    tol : float, optional
        Relative gap at which the solver stops, in place of the learner's own.
    max_iter : int, optional
        Most iterations of a solution, in place of the learner's own.
    n_jobs : int, optional
        Processes for the folds that choose C or alpha; -1 for as many as there are processors.
    verbose : bool or int, default=False
        Print every finished step of a fit on the standard error.
    random_state : int, optional
        For random features and the rows of Nystroem features, in place of 0. Nothing else in a fit is random.
    """

    __signature__ = ReadableSignature()

    kernels: KernelsLike = None
    learner: str | learners.Learner | None = None
    _: KW_ONLY
    C: Annotated[float | str | None, OneOf("auto") | Number(above=0) | None] = None
    alpha: Annotated[float | str | None, OneOf("auto") | Number(above=0, infinite=True) | None] = None
    scoring: Annotated[str | Callable[..., float] | None, Text() | Function() | None] = None
    gamma: Annotated[Any, Width() | None] = None
    normalize: str | Normalizer | None = "auto"
    standardize: Annotated[bool | str, Flag() | OneOf("auto")] = "auto"
    fit_intercept: Annotated[bool, Flag()] = True
    max_memory: float | str = "auto"
    rank_tol: Annotated[float, Number(least=0, below=1)] = 0.0
    approximation: Annotated[str | FeatureMap | None, APPROXIMATION] = "auto"
    views: Mapping[str, ColumnsLike] | None = None
    missing: Annotated[str, CELLS] = "error"
    missing_views: Annotated[str, OneOf(*MISSING_VIEWS)] = "complete"
    tol: Annotated[float | None, Number(above=0, below=1, remedy="It is a relative gap.") | None] = None
    max_iter: Annotated[int | None, Whole(1) | None] = None
    n_jobs: Annotated[int | None, Whole(1) | Whole(None, -1) | None] = None
    verbose: Annotated[bool | int, Flag() | Whole(0)] = False
    random_state: Annotated[int | None, Whole(0) | None] = None

    def __new__(cls, *args: object, **given: object) -> Self:
        """An estimator; a name that is no parameter is refused with the one that was meant."""
        unknown = given.keys() - cls.__dataclass_fields__.keys()
        # a class with a constructor of its own may have more of them
        known = inspect.signature(cls).parameters if unknown else {}
        for name in unknown - known.keys():
            hint = meant(name, known)
            if name == "kernel":
                hint += " For a Gaussian kernel: kernels=[kw.kernels.RBF(gamma='median')]."
            raise TypeError(f"{cls.__name__} got an unexpected keyword argument {name!r}.{hint}")
        return super().__new__(cls)

    @property
    def _is_plain(self) -> bool:
        """Whether kernels were left to the recipe."""
        return self.kernels is None or isinstance(self.kernels, DefaultViews)

    @property
    def _is_precomputed(self) -> bool:
        """Whether X is a stack of kernel matrices."""
        return isinstance(self.kernels, str) and self.kernels == "precomputed"

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, all of them or, if one cannot be set, none.

        Parameters of the learner are set as ``learner__C``. A learner that was named, or that follows from the other
        parameters, is then stated as an object with the same settings; a `C` that the plain estimator chooses by itself
        stays so, as ``C="auto"``.

        Parameters
        ----------
        **params : dict
            Values by name; those of a part after two underscores, as in ``learner__C=1.0``.

        Returns
        -------
        self

        Raises
        ------
        InputError
            The learner has no such parameter, or its C or alpha is that of the estimator.

        Examples
        --------
        >>> import kernelweave as kw
        >>> kw.MKLClassifier(learner="simple").set_params(learner__C=3.0)
        MKLClassifier(learner=SimpleMKL(C=3.0))
        """
        own = {name: value for name, value in params.items() if "__" not in name}
        nested = {name: value for name, value in params.items() if "__" in name}
        # tried on a draft: a name that is wrong must not leave others set
        draft = type(self)(**self.get_params(deep=False))
        BaseEstimator.set_params(draft, **own)
        asked = {name.split("__")[1]: value for name, value in nested.items() if name.startswith("learner__")}
        if asked and not isinstance(own.get("learner"), learners.Learner):
            own |= draft._learner_for(asked)
            BaseEstimator.set_params(draft, **own)
        known = draft.get_params(deep=False)
        for name in nested:
            outer = name.split("__")[0]
            if outer in known and not hasattr(known[outer], "set_params"):
                raise InputError(
                    f"`{name}` is a parameter of `{outer}`, and {known[outer]!r} has none. Set `{outer}` itself."
                )
            if outer in known:
                setattr(draft, outer, clone(known[outer]))
        BaseEstimator.set_params(draft, **nested)
        return super().set_params(**own, **nested)

    def _resolved_learner(self) -> learners.Learner:
        """The learner with the regularisation parameter, tolerance, iterations and processes of the estimator."""
        learner = self._default_learner() if self.learner is None else learners.resolve(self.learner)
        if learner is self.learner:
            # what is set here is not the user's
            learner = clone(learner)
        for name, value in (("C", self.C), ("alpha", self.alpha)):
            if value is None:
                continue
            if learner.regularization_parameter != name:
                raise InputError(
                    f"`{name}` is for learners that have it, and {type(learner).__name__} has "
                    f"{learner.regularization_parameter}. Give "
                    f"{learner.regularization_parameter}=, or another learner, such as "
                    f"learner={'simple' if name == 'C' else 'rls2'!r}."
                )
            # "auto" is chosen later
            if (name, value) != ("C", "auto"):
                setattr(learner, name, value)
        known = learner.get_params(deep=False)
        for name in ("tol", "max_iter", "n_jobs"):
            value = getattr(self, name)
            if value is None or (name == "n_jobs" and name not in known):
                continue
            if name not in known:
                raise InputError(
                    f"`{name}` is for learners that have it, and {type(learner).__name__} does not. Leave it out."
                )
            setattr(learner, name, value)
        learner.check()
        return learner

    def _default_learner(self) -> learners.Learner:
        """The learner where none was named, before `C` and `alpha`."""
        name, params = default_learner(
            plain=self._is_plain,
            classes=isinstance(self, ClassifierMixin),
            has_alpha=self.alpha is not None or getattr(self, "alphas", None) is not None,
            has_cost=self.C is not None or getattr(self, "Cs", None) is not None,
        )
        return learners.LEARNERS[name](**params)

    def _default_normalizer(self) -> str | Normalizer | None:
        """The normaliser that was asked for; "auto" is that of the recipe, or "mean-diagonal" for other kernels."""
        if not (isinstance(self.normalize, str) and self.normalize == "auto"):
            return self.normalize
        return recipe.NORMALIZER if self._is_plain else "mean-diagonal"

    def _learner_for(self, asked: Collection[str]) -> dict[str, Any]:
        """Parameters with which those of the learner can be set, and no other changes its meaning."""
        # an object is not checked: this may be the call that repairs it
        learner = self._default_learner() if self.learner is None else self.learner
        if not isinstance(learner, learners.Learner):
            learner = learners.resolve(learner)
        kind, known = type(learner).__name__, learner.get_params(deep=False)
        unknown = [name for name in asked if name not in known]
        if unknown and self.learner is None:
            others = [
                name
                for name, other in learners.LEARNERS.items()
                if unknown[0] in other().get_params(deep=False)
            ]
            named = f" or name a learner that has it: {', '.join(map(repr, others))}" if others else ""
            raise InputError(
                f"Invalid parameter `learner__{unknown[0]}`: no learner was named, so it is {kind} here. Set one of "
                f"its parameters ({', '.join(known)}){named}."
            )
        parameter = learner.regularization_parameter
        if parameter in asked and hasattr(self, f"{parameter}s"):
            plain = "MKLClassifier" if isinstance(self, ClassifierMixin) else "MKLRegressor"
            raise InputError(
                f"`learner__{parameter}` would have no effect, because {type(self).__name__} chooses {parameter} by "
                f"cross-validation. Set {parameter}s=[...], the values to try, or use {plain}."
            )
        if parameter in asked and (value := getattr(self, parameter)) is not None:
            raise InputError(
                f"`learner__{parameter}` would have no effect, because {parameter}={value!r} of the estimator is taken "
                f"in place of it. Set {parameter} itself, or {parameter}=None in the same call."
            )
        if isinstance(self.learner, learners.Learner):
            return {}
        found = {"learner": learner, **_stated_learner(self)}
        if parameter in asked:
            found.pop("C", None)
        return found

    def _chooses_cost(self, learner: learners.Learner) -> bool:
        """Whether C is chosen by folds."""
        if self.C is not None:
            return isinstance(self.C, str)
        plain = self.learner is None and self._is_plain and not hasattr(self, "Cs")
        return plain and learner.regularization_parameter == "C"


def stated(parameters: Parameters) -> dict[str, Any]:
    """Parameters that an estimator takes where they were left out, for one whose kernels are stated."""
    return {"normalize": parameters._default_normalizer(), **_stated_learner(parameters)}


def _stated_learner(parameters: Parameters) -> dict[str, Any]:
    """Parameters that state the learner, where none was named, and a C that is chosen for it."""
    if parameters.learner is not None:
        return {}
    learner = parameters._default_learner()
    learner.__dict__["_followed"] = True
    chosen = parameters.C is None and parameters._chooses_cost(learner)
    return {"learner": learner, "C": "auto"} if chosen else {"learner": learner}

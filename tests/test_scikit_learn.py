"""The estimators, and every learner behind them, pass scikit-learn's checks of its contract."""

import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import estimator_checks_generator

import kernelweave as kw
from contract import CURRENT, parametrize_with_checks
from kernelweave import learners
from kernelweave.kernels import RBF, Linear
from kernelweave.learners import LEARNERS

ESTIMATORS = [
    kw.MKLRegressor(),
    kw.MKLClassifier(),
    kw.MKLRegressorCV(n_alphas=3, cv=2),
    kw.MKLClassifierCV(n_alphas=3, cv=2),
]
MARGIN = [name for name, learner in LEARNERS.items() if learner.regularization_parameter == "C"]
#: All of scikit-learn's contract for one learner of every kind beside RLS2, the learner of `ESTIMATORS`. A long
#: descent amplifies rounding beyond the 1e-7 that weights and repetitions may differ by.
WHOLLY = [
    cls(learner=learner)
    for learner in ("simple", learners.MLMKL(max_iter=2))
    for cls in (kw.MKLClassifier, kw.MKLRegressor)
]
#: The parts that a learner can break: weights of rows, what a fit leaves behind, rows and columns that are too few.
PARTS = (
    "check_classifiers_one_label_sample_weights",
    "check_dont_overwrite_parameters",
    "check_estimators_pickle",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_get_params_invariance",
    "check_readonly_memmap_input",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weights_not_overwritten",
)
#: Settings of those that the parts need otherwise: descents as above; predictions are as exact as the root of the gap.
CHECKED_AS = {
    "2lmkl": learners.TwoLayerMKL(max_iter=5),
    "gaussian": learners.ARDGaussian(max_iter=5, tol=1e-8),
    "parametric": learners.ParametricKernel(family="rational-quadratic", max_iter=5, tol=1e-8),
    "kl-c": learners.ChapelleRadius(max_iter=5, tol=1e-8),
    "do": learners.DoRadius(tol=1e-10),
    "cardinality": learners.CardinalityMKL(tol=1e-14),
    "elastic-net": learners.ElasticNetMKL(solver="interior-point", tol=1e-12),
}
#: Slower ones, on fewer kernels.
FEW = ("silp", "best")
PARTLY = [
    cls([Linear(), RBF(gamma=0.3)] if name in FEW else None, CHECKED_AS.get(name, name))
    for name in MARGIN
    if name not in ("simple", "mlmkl")
    for cls in (kw.MKLClassifier, kw.MKLRegressor)[: 1 + LEARNERS[name].regression]
]
PARTLY += [
    kw.MKLClassifierCV(learner="simple", n_alphas=2, cv=2),
    kw.MKLRegressorCV(learner="rkl", n_alphas=2, cv=2),
]


def expected_failures(estimator):
    if estimator.learner == "dmkl":
        return {"check_sample_weight_equivalence_on_dense_data": "repeated rows span each other"}
    if (
        isinstance(estimator, kw.MKLRegressor)
        and learners.resolve(estimator.learner).regularization_parameter == "C"
    ):
        return {"check_regressors_train": "it sets alpha, which learners with a C refuse"}
    return {}


def parts(estimators):
    """The checks among `PARTS` for every estimator."""
    for estimator in estimators if CURRENT else ():
        found = estimator_checks_generator(
            estimator, expected_failed_checks=expected_failures(estimator), mark="xfail", xfail_strict=True
        )
        for each in found:
            _, check = getattr(
                each, "values", each
            )  # a mark comes with a set of parameters in place of a pair
            name = getattr(check, "func", check).__name__
            if name in PARTS:
                marks = getattr(each, "marks", ())
                options = "".join(f"-{key}" for key in getattr(check, "keywords", None) or ())
                yield pytest.param(estimator, check, id=f"{estimator!r}-{name}{options}", marks=marks)


# some checks have random classes with a single member, which scikit-learn's splitter remarks upon
@pytest.mark.sampled(9)
@pytest.mark.filterwarnings("ignore:The least populated class in y has only:UserWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        if getattr(check, "func", check).__name__ == "check_class_weight_classifiers":
            # weights of 1000 and 0.0001: rounding ends at a gap of 4e-10, above the 1e-10 of a plain fit
            warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


contract = pytest.mark.filterwarnings(
    "ignore:The least populated class in y has only:UserWarning",
    "ignore::sklearn.exceptions.ConvergenceWarning",
)


@pytest.mark.sampled(17)
@contract
@parametrize_with_checks(WHOLLY, expected_failures)
def test_the_contract_with_other_learners(estimator, check):
    check(estimator)


@pytest.mark.sampled(17)
@contract
@pytest.mark.parametrize(("estimator", "check"), list(parts(PARTLY)))
def test_parts_of_the_contract_that_a_learner_can_break(estimator, check):
    check(estimator)

"""Wrong arguments: every refusal is an `InputError` that names the parameter, and every parameter has its rule.

Modules: `_checks`.
"""

import inspect

import numpy as np
import pytest

import kernelweave as kw
import wrong_arguments
from kernelweave import InputError, inspection, learners
from kernelweave._checks import Alphas, Floats
from kernelweave._parameters import (
    Choice,
    Flag,
    Function,
    Number,
    OneOf,
    Text,
    Whole,
    check_value,
    checked,
    rules_of,
)
from wrong_arguments import calls, chosen, outcome

#: What kernels and rows are is said by the checks of stacks, tables and folds, which look at several arguments at once.
NO_RULE = {
    "gram", "K", "X", "weight_set", "start", "kernels", "learner", "normalize", "max_memory", "class_weight", "cv",
    "report", "settings", "columns", "views",
}  # fmt: skip

FUNCTIONS = [getattr(kw.solvers, name) for name in kw.solvers.__all__ if name.startswith("solve_")] + [
    kw.rls2_path, kw.solvers.svm_mkl_path, kw.solvers.repair_gram, kw.load, kw.save, kw.views.as_table,
    kw.views.freeze_columns, kw.datasets.load, kw.datasets.names, kw.datasets.is_here, kw.banks.get,
    *[
        getattr(inspection, name)
        for name in inspection.__all__
        if name.islower() and name != "finding"
    ],
]  # fmt: skip
CLASSES = [
    *learners.LEARNERS.values(), kw.MKLClassifier, kw.MKLRegressor, kw.MKLClassifierCV, kw.MKLRegressorCV,
    kw.kernels.RBF, kw.kernels.Laplacian, kw.kernels.Polynomial, kw.kernels.Constant,
    kw.normalizers.WithinClass, kw.weight_sets.LpBall, kw.weight_sets.CappedSimplex, kw.weight_sets.ElasticNet,
    kw.views.Table,
    *[getattr(kw.plots, name) for name in kw.plots.__all__],
]  # fmt: skip


def test_every_parameter_has_a_rule_that_takes_its_default():
    for public in (*FUNCTIONS, *CLASSES):
        rules = rules_of(public)
        for name, parameter in inspect.signature(public).parameters.items():
            if name in NO_RULE or (name == "n_features" and public is kw.banks.get):
                continue
            assert name in rules, (public.__name__, name)
            if parameter.default is not parameter.empty:
                check_value(rules[name], f"{public.__name__}({name}=)", parameter.default)


#: The least and the largest numbers: what is made of them overflows where nothing looks.
EXTREMES = {
    "Cs": lambda: kw.MKLRegressorCV("precomputed", "simple", Cs=[1.0, 1e-320]).fit(
        np.eye(4)[:, :, None], [0, 1, 0, 1]
    ),
    "distances": lambda: kw.solvers.solve_radius(
        kw.solvers.Gaussians(1e-320 * (1 - np.eye(4))[None]), [-1, 1, -1, 1], 1.0
    ),
    "X": lambda: kw.kernels.RBF(1.0).diag({}),
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("parameter", EXTREMES)
def test_extremes_are_refused_by_name(parameter):
    with pytest.raises(InputError, match=rf"\b{parameter}\b"):
        EXTREMES[parameter]()


@pytest.mark.parametrize("part", range(8))
def test_refusals_name_the_parameter(part):
    found = []
    for call, parameter, what, wrong in chosen(640, seed=17)[part::8]:
        how, words = outcome(call, parameter, wrong)
        if how not in ("accepted", "refused"):
            found.append(f"{how}: {call.name}({parameter}={what}): {words:.200}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("name", "parameter", "what"),
    [
        ("KernelBank", "names", "ragged"),
        ("precomputed.fit", "X", "ragged"),
        ("banks.views", "kernels", "0D"),
        ("RegularizationPathDisplay", "alphas", "1e308"),
        ("calibrate", "groups", "ragged"),
        ("MKLClassifier.fit", "X", "-1e308 inside"),
        ("MKLRegressor.fit", "X", "times 1e300"),
        ("predict_rows", "rows", "empty text"),
        ("RowFeatures.folds", "n_folds", "0"),
        ("RowFeatures", "n_jobs", "0"),
        ("rls2_path_cv", "alphas", "1e-320"),
        ("compare_numbers", "second", "-1e308 inside"),
    ],
)
def test_rare_refusals_name_the_parameter(name, parameter, what):
    (call,) = [call for call in calls() if call.name == name]
    wrong = {**wrong_arguments.WRONG, **wrong_arguments.exchanged(call.good[parameter])}[what]
    how, words = outcome(call, parameter, wrong)
    assert how == "refused", f"{how}: {words}"


def test_the_table_is_of_calls_that_work():
    for call in calls():
        parameter, value = next(iter(call.good.items()))
        assert outcome(call, parameter, value)[0] == "accepted", call.name


def test_a_call_that_refuses_without_a_name_is_seen():
    def refuse(C):
        raise InputError("This cannot be used.")

    def escape(C):
        raise KeyError(C)

    assert outcome(wrong_arguments.Call("refuse", refuse, {"C": 1.0}), "C", -1.0)[0] == "not named"
    assert outcome(wrong_arguments.Call("escape", escape, {"C": 1.0}), "C", -1.0)[0] == "KeyError"


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (Number(above=0), [1, 2.5, 1e-9], [0, -1.0, "1", True, None, 1j, float("nan"), float("inf"), 10**400, 1e308]),
        (Number(least=0, below=1), [0, 0.5], [1, -1e-9, [0.5]]),
        (Number(above=0, infinite=True), [float("inf")], [0.0]),
        (Whole(1), [1, 7], [0, 1.0, True, "1", 10**20, None]),
        (Whole(None, -1), [-1, -4], [0, 3]),
        (Flag(), [True, False], [1, 0, None, "True"]),
        (OneOf("a", "b", None), ["a", None], ["c", 1, ["a"], {}]),
        (OneOf(0.5, 1.5), [0.5, 1.5, np.float64(0.5)], [1, True, "0.5"]),
        (OneOf(1, 2), [1, 2, 1.0], [3, True, "1", None]),
        (OneOf("auto") | Number(above=0), ["auto", 3.0], ["car", 0.0]),
        (Whole(1) | None, [None, 3], [0]),
        (Text(), ["", "a"], [b"a", 1]),
        (Text(path=True) | None, ["a", None], [3]),
        (Function() | None, [None, len], ["len"]),
        (Choice((Whole(1), Whole(None, -1))), [-1, 1], [0]),
        (Floats(), [[1.0, 2.0], (1, 2), [True]], [1.0, [], ["1"], [1j], [[1.0]], [[1.0], [1.0, 2.0]], [None], [1e300]]),
        (Floats((1, 2), least=0.0, smallest=1e-100), [[0.0, 1.0], [[1.0]]], [[-1.0], [1e-200]]),
        (Alphas(), [1.0, [1.0, float("inf")]], [[], [0.0], "1", None]),
    ],
    ids=repr,
)  # fmt: skip
def test_rules(rule, good, bad):
    for value in good:
        check_value(rule, "it", value)
    for value in bad:
        with pytest.raises(InputError, match=r"^`it` must be .*, got "):
            check_value(rule, "it", value)


def test_rules_put_values_into_their_type_and_suggest(rng):
    import numpy as np

    for value in (np.float32(2.0), np.int64(2), np.array(2.0), 2):
        assert type(check_value(Number(above=0), "C", value)) is float
    assert type(check_value(Whole(1), "n", np.int64(3))) is int
    assert check_value(Flag(), "flag", np.bool_(True)) is True
    with pytest.raises(InputError, match="Did you mean 'newton'"):
        check_value(OneOf("newton", "alternating"), "solver", "newtom")


def test_arguments_by_place_are_checked_as_well():
    @checked
    def function(a: "Cost", b: "Cost" = 1.0, *rest, **more):  # noqa: F821
        return a, b, rest, more

    function.__wrapped__.__globals__["Cost"] = kw.solve_svc.__wrapped__.__globals__["Cost"]
    assert function(1, 2, 3, c=4) == (1.0, 2.0, (3,), {"c": 4})
    with pytest.raises(InputError, match="`b` must be"):
        function(1, -1)
    with pytest.raises(TypeError, match="missing"):
        function()

"""What the loops under Gram representations say to wrong indices, lengths and shapes: an error, always."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernelweave import _loops
from kernelweave._loops import numpy_core, packed_length

n, k, T, R = 6, 3, 2, 4
L = packed_length(n)


def floats(*shape):
    return np.zeros(shape)


def integers(*values):
    return np.array(values, dtype=np.int64)


BOX = {
    "linear": floats(n),
    "ridge": np.zeros(n),
    "lo": -np.ones(n),
    "hi": np.ones(n),
    "kink": 0.0,
}
LAYER = {"kinds": integers(0, 2, 1), "params": floats(k, 2), "weights": floats(k), "roots": floats(k, n)}

#: Seven columns in three blocks.
BLOCKS = {"offsets": integers(0, 2, 3, 7), "chosen": integers(0, 2), "h": floats(7)}
BLOCK_WEIGHTS = {"W": floats(T, 7), "norms": floats(3)}
LIMITS = {"alpha": 1.0, "aim": 1e-6, "most": 5}

#: every function of the core, with arguments that fit
LOOPS = {
    "column_products": {"Zt": floats(7, n), "R": floats(T, n), "out": floats(T, 7)},
    "column_sums": {
        "Zt": floats(7, n),
        "index": integers(0, 4, 2),
        "coef": floats(T, k),
        "out": floats(T, n),
    },
    "gaussian_quadratic_forms": {
        "Xt": floats(7, n),
        "columns": integers(0, 4, 4),
        "middles": floats(k),
        "periods": floats(k) + 2.0,
        "counts": integers(3, 0, 5),
        "gammas": floats(k) + 1.0,
        "R": floats(T, n),
        "out": floats(T, k),
    },
    "blocks_on_rows": {
        "Zt": floats(7, n),
        **BLOCKS,
        "Y": floats(T, n),
        **BLOCK_WEIGHTS,
        "R": floats(T, n),
        **LIMITS,
    },
    "blocks_on_weighted_rows": {
        "X": floats(7, n),
        **BLOCKS,
        "turns": floats(7, 4),
        "means": floats(7),
        "weight": np.ones(n),
        "inverse": np.ones(n),
        "W": floats(1, 7),
        "norms": BLOCK_WEIGHTS["norms"],
        "f": floats(n),
        "u": floats(n),
        **LIMITS,
    },
    "blocks_weighted_products": {
        "X": floats(7, n),
        "offsets": BLOCKS["offsets"],
        "chosen": BLOCKS["chosen"],
        "weight": np.ones(n),
        "C": floats(7, 4),
        "sums": floats(7),
    },
    "blocks_on_products": {
        "C": floats(7, 7),
        **BLOCKS,
        "Q": floats(T, 7),
        "total": 1.0,
        **BLOCK_WEIGHTS,
        "G": floats(T, 7),
        **LIMITS,
    },
    "blocks_residual": {
        "Zt": floats(7, n),
        "offsets": BLOCKS["offsets"],
        "chosen": BLOCKS["chosen"],
        "Y": floats(T, n),
        "W": floats(T, 7),
        "R": floats(T, n),
    },
    "quadratic_forms": {
        "packed": floats(5, L),
        "idx": integers(0, 4, 2),
        "C": floats(T, n),
        "out": floats(k),
    },
    "matvecs": {"packed": floats(5, L), "idx": integers(0, 4, 2), "C": floats(T, n), "out": floats(k, T, n)},
    "combine": {"packed": floats(5, L), "idx": integers(0, 4, 2), "w": floats(k), "out": floats(n, n)},
    "inner": {"packed": floats(5, L), "idx": integers(0, 4, 2), "H": floats(n, n), "out": floats(k)},
    "pack": {
        "stack": floats(n, n, k),
        "packed": floats(k, L),
        "asym": floats(k),
        "size": floats(k),
        "bad": floats(k),
    },
    "definite": {"packed": floats(L), "n_samples": n, "shift": 1.0, "level": 1.0},
    "choose_rows": {
        "packed": floats(k, L),
        "rows": integers(2, 0),
        "n_samples": n,
        "out": floats(k, 3),
    },
    "shift_rows": {"packed": floats(k, L), "means": floats(k, n), "totals": floats(k)},
    "differences": {"A": floats(2, 3), "B": floats(3, n), "out": floats(2, n)},
    "decays": {"D": floats(2, n - 1), "first": 1, "gammas": floats(k), "packed": floats(k, L)},
    "decay_product": {"D": floats(2, n), "gamma": 1.0, "C": floats(T, n), "out": floats(2, T)},
    "pivoted_cholesky": {"packed": floats(L), "bound": 0.0, "Z": floats(2, n)},
    "pivoted_decay": {"X": floats(3, n), "gamma": 1.0, "squared": True, "bound": 0.0, "Z": floats(2, n)},
    "factor_matvecs": {
        "Zt": floats(R, n),
        "offsets": integers(0, 1, 1, 4),
        "idx": integers(2, 0),
        "scores": floats(T, R),
        "out": floats(2, T, n),
    },
    "lanczos": {
        "S": np.eye(n),
        "least": 1.0,
        "tol": 1e-9,
        "V": np.full((k, n), n**-0.5),
        "diagonal": floats(k),
        "beside": floats(k),
    },
    "covariance": {
        "Z": floats(2, n),
        "signal": 1.0,
        "diagonal": np.ones(n),
        "packed": floats(L),
        "K": floats(n, n),
    },
    "evidence_slopes": {
        "X": floats(2, n),
        "packed": floats(L),
        "A": floats(T, n),
        "Q": floats(n, n),
        "sums": floats(3),
    },
    "simplex_qp": {"H": np.eye(k), "g": np.ones(k), "x": np.full(k, 1 / k), "tol": 1e-9, "max_iter": 5},
    "simplex_smo": {
        "G": np.eye(k),
        "b": np.ones(k),
        "d": np.full(k, 1 / k),
        "tol": 1e-9,
        "max_inner": 5,
        "max_outer": 5,
    },
    "inspect": {"K": floats(n, n)},
    "mirror": {"K": floats(n, n)},
    "add_rows": {"K": floats(n, n), "w": floats(n), "g": floats(n)},
    "block": {
        "K": floats(n, n),
        "rows": np.array([n - 1, 0]),
        "columns": np.array([1, n - 1, 0]),
        "out": floats(2, 3),
    },
    "long_product": {"K": floats(n, n), "w": floats(n), "out": floats(n)},
    "box_smo": {
        "K": np.eye(n),
        "ridge": floats(n),
        "lo": -np.ones(n),
        "hi": np.ones(n),
        "kink": 0.0,
        "b": floats(n),
        "g": np.arange(float(n)),
        "eps": 1e-9,
        "max_steps": 9,
        "shrink": True,
    },
    "box_intercept": {**BOX, "product": floats(n)},
    "box_values": {**BOX, "b": floats(n), "product": floats(n), "t": 0.0, "find": True},
    "box_look": {
        **BOX,
        "K": np.eye(n),
        "total": 0.0,
        "entry_error": 0.0,
        "before": True,
        "b": np.ones(n),
        "product": floats(n),
        "error": floats(n),
        "g": floats(n),
    },
    "box_newton": {
        **BOX,
        "K": np.eye(n),
        "total": 0.0,
        "b": floats(n),
        "g": np.arange(float(n)),
        "first": 1e9,
        "all": 1e9,
        "most_systems": 9,
        "most": 99,
    },
    "box_rounds": {
        **BOX,
        "K": np.eye(n),
        "entry_error": 0.0,
        "tol": 1e-9,
        "limit": 999,
        "most": 9,
        "start": floats(n),
        "out": floats(6, n),
    },
    "box_curvature": {
        **BOX,
        "K": np.eye(n),
        "b": floats(n),
        "V": floats(k, n),
        "fit_intercept": True,
        "most": 99,
        "out": floats(k, k),
    },
    "box_rounding": {
        **BOX,
        "b": floats(n),
        "product": floats(n),
        "t": 0.0,
        "error": floats(n),
        "sums": 1.0,
        "fit_intercept": True,
    },
    "logistic_value": {"y": np.sign(floats(n)), "costs": np.ones(n), "f": floats(n)},
    "logistic_gap": {"y": np.sign(floats(n)), "costs": np.ones(n), "b": floats(n), "f": floats(n)},
    "logistic_expansion": {
        "y": np.sign(floats(n)),
        "costs": np.ones(n),
        "product": floats(n),
        "fit_intercept": True,
        "flattest": 1e-9,
        "start": 0.0,
        "b": floats(n),
        "h": floats(n),
    },
    "compensated_sum": {"x": floats(n)},
    "logistic_intercept": {"y": np.sign(floats(n)), "costs": np.ones(n), "product": floats(n)},
    "layer_forward": {"K": floats(n, n), "kappa": floats(n), **LAYER, "out": floats(n, n)},
    "layer_backward": {
        "K": floats(n, n),
        "kappa": floats(n),
        **LAYER,
        "H": floats(n, n),
        "grad": floats(k),
        "along": floats(k, n),
        "across": floats(n),
    },
}


#: without a twin of the same name
COMPILED = {"layer_forward", "layer_backward", "box_newton", "box_rounds", "box_curvature"}

#: lengths that one array alone decides: its axis may be longer or shorter
FREE = {
    ("quadratic_forms", "packed", "axis 0 longer"),
    ("quadratic_forms", "C", "axis 0 longer"),
    ("quadratic_forms", "C", "axis 0 shorter"),
    ("matvecs", "packed", "axis 0 longer"),
    ("combine", "packed", "axis 0 longer"),
    ("inner", "packed", "axis 0 longer"),
    ("decays", "D", "axis 0 shorter"),
    ("decays", "D", "axis 0 longer"),
    ("pivoted_cholesky", "Z", "axis 0 longer"),
    ("pivoted_cholesky", "Z", "axis 0 shorter"),
    ("pivoted_decay", "X", "axis 0 longer"),
    ("pivoted_decay", "X", "axis 0 shorter"),
    ("pivoted_decay", "Z", "axis 0 longer"),
    ("pivoted_decay", "Z", "axis 0 shorter"),
    ("factor_matvecs", "offsets", "axis 0 longer"),
    ("covariance", "Z", "axis 0 longer"),
    ("covariance", "Z", "axis 0 shorter"),
    ("evidence_slopes", "A", "axis 0 longer"),
    ("evidence_slopes", "A", "axis 0 shorter"),
    ("block", "K", "axis 0 longer"),
    ("block", "K", "axis 1 longer"),
    ("compensated_sum", "x", "axis 0 longer"),
    ("compensated_sum", "x", "axis 0 shorter"),
    ("column_sums", "Zt", "axis 0 longer"),
    ("column_sums", "Zt", "axis 0 shorter"),
    ("gaussian_quadratic_forms", "Xt", "axis 0 longer"),
    ("gaussian_quadratic_forms", "Xt", "axis 0 shorter"),
    ("blocks_residual", "offsets", "axis 0 longer"),
    ("blocks_weighted_products", "offsets", "axis 0 longer"),
    ("blocks_weighted_products", "C", "axis 1 longer"),
    ("blocks_on_weighted_rows", "turns", "axis 1 longer"),
    *[
        (function, "chosen", f"axis 0 {change}")
        for function in (
            "blocks_on_rows",
            "blocks_on_weighted_rows",
            "blocks_weighted_products",
            "blocks_on_products",
            "blocks_residual",
        )
        for change in ("shorter", "longer")
    ],
}


def misfits(array):
    """The array longer or shorter by one along each axis; an index also with an entry out of range."""
    for axis in range(array.ndim):
        yield f"axis {axis} shorter", np.ascontiguousarray(np.delete(array, 0, axis))
        yield (
            f"axis {axis} longer",
            np.ascontiguousarray(np.concatenate([array, array.take([-1], axis)], axis)),
        )
    if array.dtype == np.int64:
        for wrong in (-1, 10**6, 2**62, np.iinfo(np.int64).min):
            yield f"entry {wrong}", np.r_[array[:-1], wrong]


CORES = [pytest.param(numpy_core, id="numpy")]
if _loops.HAS_EXTENSION:
    CORES.append(pytest.param(_loops.core, id="compiled"))


def copies(arguments):
    return [value.copy() if isinstance(value, np.ndarray) else value for value in arguments.values()]


@pytest.mark.skipif(not _loops.HAS_EXTENSION, reason="the compiled core is not there")
@pytest.mark.parametrize("function", LOOPS)
def test_sizes_are_checked_in_the_compiled_loops(function):
    call, good = getattr(_loops.core, function), LOOPS[function]
    call(*copies(good))
    for position, (name, value) in enumerate(good.items()):
        for what, wrong in misfits(value) if isinstance(value, np.ndarray) else ():
            arguments = copies(good)
            arguments[position] = wrong
            if (function, name, what) in FREE:
                call(*arguments)
                continue
            with pytest.raises(ValueError, match=r"must (have shape|hold|rise)"):
                call(*arguments)


@pytest.mark.parametrize("core", CORES)
def test_what_lies_inside(core):
    assert core.inside(integers(), 0)
    assert core.inside(integers(3, 0), 4)
    for wrong in (
        integers(0, 4),
        integers(-1),
        integers(1, np.iinfo(np.int64).min),
        integers(np.iinfo(np.int64).max),
    ):
        assert not core.inside(wrong, 4)


def test_the_list_of_loops_is_complete():
    compiled = (
        {name for name in dir(_loops.core) if not name.startswith("_")} if _loops.HAS_EXTENSION else set()
    )
    named = set(vars(numpy_core)) | compiled - {"version"} | COMPILED
    assert named == set(LOOPS) | {"inside"}


@pytest.mark.parametrize("core", CORES)
def test_a_start_without_a_positive_entry_is_refused(core):
    with pytest.raises(ValueError, match="`x` must hold a positive entry"):
        core.simplex_qp(np.eye(3), np.ones(3), np.array([-1.0, -2.0, 0.0]), 1e-9, 5)


@pytest.mark.skipif(not _loops.HAS_EXTENSION, reason="the compiled core is not there")
def test_no_call_ends_the_process():
    """Some thousands of random calls in a process of their own, which must live to tell."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("gram_fuzz.py")), "2000", "0"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    accepted, refused = map(int, done.stdout.split())
    # both kinds must be there, or nothing was tried
    assert accepted > 100
    assert refused > 500

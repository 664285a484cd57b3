"""Random calls of the loops, most of them wrong: ``python gram_fuzz.py N_CALLS SEED``.

Prints how many were accepted and refused. Loops may raise nothing but `ValueError` or `TypeError`; anything else ends
it, as does a segmentation fault.
"""

import sys
import warnings

import numpy as np

from kernelweave import _loops
from test_gram_arguments import LOOPS


def spoil(value, rng):
    """Something like `value`, seldom of the right size."""
    if not isinstance(value, np.ndarray):
        return value
    kind = rng.integers(8)
    if value.dtype == np.int64:
        if kind < 3:
            return value
        return rng.choice([-(2**63), -7, -1, 0, 1, 2, 3, 50, 2**40], size=rng.integers(0, 5)).astype(np.int64)
    if kind < 3:
        return value.copy()
    shape = tuple(max(0, length + int(rng.integers(-2, 3))) for length in value.shape)
    if kind == 3:
        shape = shape[::-1]
    elif kind == 4:
        shape = shape[1:] if rng.random() < 0.5 else (*shape, 2)
    elif kind == 5:
        return np.asfortranarray(rng.normal(size=shape))
    elif kind == 6:
        return rng.normal(size=shape).astype(rng.choice([np.float32, np.int64, np.complex128]))
    return rng.normal(size=shape) * rng.choice([1.0, 1e300, np.nan])


def call_loop(rng):
    functions = [function for function in LOOPS if hasattr(_loops.core, function)]
    function = functions[rng.integers(len(functions))]
    try:
        getattr(_loops.core, function)(*[spoil(value, rng) for value in LOOPS[function].values()])
    except (ValueError, TypeError):
        return False
    return True


def main(n_calls, seed):
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    rng = np.random.default_rng(seed)
    accepted = sum(call_loop(rng) for _ in range(n_calls))
    print(accepted, n_calls - accepted)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

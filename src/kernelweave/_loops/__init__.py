"""Inner loops on plain arrays: the compiled core if it is installed, else NumPy versions (twins).

The twins are the oracle of the compiled functions (tests run both) and the fallback on machines without a
compiler. The compiled functions check all sizes, because they would read beyond their arrays; the twins need not.
Set the environment variable ``KERNELWEAVE_DISABLE_EXT=1`` to run without the extension.
"""

from __future__ import annotations

import os
import warnings
from types import SimpleNamespace
from typing import Any

from kernelweave._loops import blocks, box, logistic, packed, smo
from kernelweave._loops.packed import packed_length, packed_rows, pivoted_columns, unpack

__all__ = ["HAS_EXTENSION", "core", "numpy_core", "packed_length", "packed_rows", "pivoted_columns", "unpack"]

numpy_core = SimpleNamespace(
    inside=packed.inside,
    quadratic_forms=packed.quadratic_forms,
    inner=packed.inner,
    matvecs=packed.matvecs,
    combine=packed.combine,
    pack=packed.pack,
    definite=packed.definite,
    choose_rows=packed.choose_rows,
    shift_rows=packed.shift_rows,
    differences=packed.differences,
    decays=packed.decays,
    decay_product=packed.decay_product,
    pivoted_cholesky=packed.pivoted_cholesky,
    pivoted_decay=packed.pivoted_decay,
    factor_matvecs=packed.factor_matvecs,
    lanczos=packed.lanczos,
    covariance=packed.covariance,
    evidence_slopes=packed.evidence_slopes,
    simplex_qp=packed.simplex_qp,
    simplex_smo=packed.simplex_smo,
    inspect=packed.inspect,
    mirror=packed.mirror,
    add_rows=packed.add_rows,
    block=packed.block,
    long_product=packed.long_product,
    box_smo=smo.box_smo,
    box_values=box.box_values,
    box_intercept=box.box_intercept,
    box_rounding=box.box_rounding,
    box_look=box.box_look,
    logistic_intercept=logistic.logistic_intercept,
    logistic_expansion=logistic.logistic_expansion,
    compensated_sum=logistic.compensated_sum,
    logistic_value=logistic.logistic_value,
    logistic_gap=logistic.logistic_gap,
    blocks_on_rows=blocks.blocks_on_rows,
    blocks_on_products=blocks.blocks_on_products,
    blocks_on_weighted_rows=blocks.blocks_on_weighted_rows,
    blocks_weighted_products=blocks.blocks_weighted_products,
    column_products=blocks.column_products,
    column_sums=blocks.column_sums,
    gaussian_quadratic_forms=blocks.gaussian_quadratic_forms,
    blocks_residual=blocks.blocks_residual,
)


def _load_core() -> tuple[Any, bool]:
    if os.environ.get("KERNELWEAVE_DISABLE_EXT", "0") not in ("", "0"):
        return numpy_core, False
    try:
        import kernelweave._loops._core as compiled
    except ImportError as error:
        warnings.warn(
            f"The compiled part of kernelweave is not there ({error}): results are the same, and fits take several "
            "times as long. Install a wheel, or a C++ compiler before pip install. KERNELWEAVE_DISABLE_EXT=1 hides it.",
            RuntimeWarning,
            stacklevel=2,
        )
        return numpy_core, False
    return compiled, True


core, HAS_EXTENSION = _load_core()

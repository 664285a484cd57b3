"""The NumPy twin of the compiled loop of sequential minimal optimisation."""

from __future__ import annotations

import numpy as np

from kernelweave._types import Array

#: Represents infinity in `box_smo`, as in the compiled function.
_HUGE = 1e300


def box_smo(
    K: Array,
    ridge: Array,
    lo: Array,
    hi: Array,
    kink: float,
    b: Array,
    g: Array,
    eps: float,
    max_steps: int,
    shrink: bool,
) -> tuple[int, float, float]:
    # `shrink` only saves time in the compiled function
    diag = np.diag(K) + ridge
    floor = max(1e-12 * float(diag.max(initial=0.0)), 1e-300)
    up = np.where(b >= hi, _HUGE, np.where(b < 0, -kink, kink))
    down = np.where(b <= lo, -_HUGE, np.where(b > 0, kink, -kink))
    steps, worst = 0, 0.0
    while True:
        U, D = g + up, g + down
        i = int(np.argmin(U))
        violation = float(D.max() - U[i])
        if violation <= eps or steps == max_steps:
            return steps, max(0.0, violation), worst
        slope = D - U[i]
        curvature = diag[i] + diag - 2.0 * K[i]
        j = int(np.argmax(np.square(np.maximum(slope, 0.0)) / np.maximum(curvature, floor)))
        second = float(curvature[j])
        worst = min(worst, second / (diag[i] + diag[j] + 1e-300))
        top = 0.0 if kink > 0 and b[i] < 0 else hi[i]
        bottom = 0.0 if kink > 0 and b[j] > 0 else lo[j]
        room_i, room_j = top - b[i], b[j] - bottom
        delta = min(slope[j] / max(second, floor), room_i, room_j)
        b[i] = top if delta >= room_i else b[i] + delta
        b[j] = bottom if delta >= room_j else b[j] - delta
        g += delta * (K[i] - K[j])
        g[i] += delta * ridge[i]
        g[j] -= delta * ridge[j]
        for k in (i, j):
            up[k] = _HUGE if b[k] >= hi[k] else -kink if b[k] < 0 else kink
            down[k] = -_HUGE if b[k] <= lo[k] else kink if b[k] > 0 else -kink
        steps += 1

"""Pictures of the page on RKL's convexity: two kernels on forty made-up rows, computed while building."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sphinx.application import Sphinx

from kernelweave import solve_meb, solve_rkl, solve_svc
from kernelweave.kernels import RBF, Polynomial

MADE = Path(__file__).resolve().parent.parent / "generated" / "convex"
C = 5.0
#: Factors of the first kernel under which the quotient is drawn.
FACTORS = (1.0, 30.0, 1.0 / 30.0)


def problem() -> tuple[np.ndarray, np.ndarray]:
    """A narrow polynomial valley: classes by the sign of a product, with noise; mean diagonals of 1."""
    rng = np.random.default_rng(21)
    X = rng.normal(size=(40, 2))
    y = np.sign(X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=40))
    stack = np.stack([k(X) for k in (RBF(gamma=0.1), Polynomial(degree=2))], axis=-1)
    return stack / np.einsum("iim->m", stack) * len(y), y


def radius(K: np.ndarray) -> float:
    return solve_meb(K, tol=1e-9, check=False).radius2


def value(K: np.ndarray, y: np.ndarray) -> float:
    return solve_svc(K, y, C, tol=1e-7).dual


def valley(stack: np.ndarray, y: np.ndarray) -> Figure:
    """The quotient over the simplex, with the first kernel multiplied."""
    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    ax = figure.subplots()
    for factor in FACTORS:
        own = stack * np.array([factor, 1.0])
        # dense where the curve is steep: equal steps of the shares before the kernel was multiplied
        before = np.linspace(0.0, 1.0, 81)
        shares = np.union1d(before / factor / (before / factor + 1.0 - before), np.linspace(0.0, 1.0, 41))
        kernels = [own @ np.array([s, 1.0 - s]) for s in shares]
        g = np.array([value(K / radius(K), y) for K in kernels])
        line = ax.plot(shares, g, label=f"first kernel times {factor:.2g}")[0]
        ax.plot(shares[g.argmin()], g.min(), "o", color=line.get_color())
    ax.set_xlabel("weight of the first kernel; the second has the rest")
    ax.set_ylabel("g, the machine on K / r²")
    ax.legend()
    return figure


def plane(stack: np.ndarray, y: np.ndarray) -> Figure:
    """J over the plane of weights, and the set on which the ball has at most radius 1."""
    found = solve_rkl(stack, y, C, tol=1e-9)
    best = found.weights / radius(stack @ found.weights)
    beta = solve_meb(stack @ best, tol=1e-11, check=False).dual_coef
    rho = np.einsum("iim,i->m", stack, beta) - np.einsum("ijm,i,j->m", stack, beta, beta)
    # the border of the set, ray by ray
    angles = np.linspace(0.0, np.pi / 2, 61)
    rays = np.stack([np.cos(angles), np.sin(angles)])
    border = rays / np.array([radius(stack @ ray) for ray in rays.T])
    most = 1.15 * border.max(axis=1)
    axes = [np.linspace(0.03 * m, m, 36) for m in most]
    J = np.array([[value(stack @ np.array([a, b]), y) for a in axes[0]] for b in axes[1]])
    figure = Figure(figsize=(6.0, 4.4), layout="constrained")
    ax = figure.subplots()
    levels = np.unique(np.r_[found.value, np.quantile(J, np.linspace(0.03, 0.9, 11))])
    lines = ax.contour(axes[0], axes[1], J, levels=levels, colors="0.55", linewidths=0.8)
    ax.clabel(lines, fmt="%.0f", fontsize=7)
    ax.contour(axes[0], axes[1], J, levels=[found.value], colors="C3", linewidths=1.6)
    ax.fill(np.r_[0, border[0]], np.r_[0, border[1]], color="C0", alpha=0.15, lw=0)
    ax.plot(*border, color="C0", lw=1.6, label="r² = 1")
    ends = np.array([[1 / rho[0], 0.0], [0.0, 1 / rho[1]]])
    ax.plot(*ends, "--", color="0.2", lw=1, label="⟨t, ρ⟩ = 1 of the certificate")
    ax.plot(*best, "o", color="C3", label="solution")
    ax.set_xlim(0, most[0])
    ax.set_ylim(0, most[1])
    ax.set_xlabel("weight of the first kernel (Gaussian)")
    ax.set_ylabel("weight of the second kernel (polynomial)")
    ax.legend(loc="upper right", fontsize=8)
    return figure


def build(_app: object = None) -> None:
    """Draw both."""
    shutil.rmtree(MADE, ignore_errors=True)
    MADE.mkdir(parents=True)
    stack, y = problem()
    valley(stack, y).savefig(MADE / "valley.svg")
    plane(stack, y).savefig(MADE / "plane.svg")


def setup(app: Sphinx) -> dict:
    app.connect("builder-inited", build)
    return {"parallel_read_safe": True}

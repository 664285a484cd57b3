"""
What if nobody knows how kernels should be scaled?
==================================================

RKL gives the same decision values, however single kernels are multiplied. SimpleMKL without a normaliser does not.
"""

# %%
# Ten Gaussian kernels on the breast cancer data. Each is multiplied by 100 or by 1/100 at random, and both methods are
# fitted before and after, without any normaliser.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import kernelweave as kw

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)[::3]
y = np.where(y[::3] > 0, 1.0, -1.0)
gram = np.stack([kw.kernels.RBF(gamma=g)(X) for g in np.geomspace(1e-3, 1.0, 10)], axis=-1)
factors = np.random.default_rng(3).choice([0.01, 100.0], 10)


def values(solve, stack):
    found = solve(stack, y)
    assert found.rel_gap <= 1e-6
    return np.tensordot(stack, found.weights, 1) @ found.dual_coef + found.intercept


methods = {
    "RKL": lambda stack, y: kw.solve_rkl(stack, y, C=10.0, tol=1e-9),
    "SimpleMKL": lambda stack, y: kw.solve_svm_mkl(stack, y, C=10.0, tol=1e-9),
}
figure, panels = plt.subplots(1, 2, figsize=(8.5, 3.8), layout="constrained")
for ax, (name, solve) in zip(panels, methods.items(), strict=True):
    before, after = values(solve, gram), values(solve, gram * factors)
    print(f"{name}: largest change of a decision value {np.abs(before - after).max():.1e}")
    ax.axline((0, 0), slope=1, color="0.7", linewidth=1)
    ax.scatter(before, after, c=y, cmap="coolwarm", s=14)
    ax.set(xlabel="decision value, kernels as they are", ylabel="kernels times 100 or 1/100", title=name)

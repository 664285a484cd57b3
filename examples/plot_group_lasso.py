"""
Which groups of columns enter first?
====================================

Explicit features in blocks need no matrix of rows by rows: RLS2 is then a group lasso, and the three groups that matter
enter its path first.
"""

# %%
# 40 groups of 10 correlated columns, three of which determine the target. The path of 40 alphas is certified at every
# point.
import matplotlib.pyplot as plt
import numpy as np

import kernelweave as kw

rng = np.random.default_rng(0)
n, groups, width = 600, 40, 10
common = rng.normal(size=(n, groups, 1))
Z = (0.6 * common + 0.8 * rng.normal(size=(n, groups, width))).reshape(n, -1)
truth = np.zeros((groups, width))
truth[[3, 11, 27]] = rng.normal(size=(3, width))
y = Z @ truth.ravel() + 3.0 * rng.normal(size=n)
stack = kw.FeatureStack(Z - Z.mean(axis=0), np.arange(0, groups * width + 1, width))
path = kw.rls2_path(stack, y - y.mean(), n_alphas=40, tol=1e-6)
print(f"largest relative gap on the path {path.rel_gap.max():.0e}")

# %%
names = [f"group {k}" + (" (true)" if k in (3, 11, 27) else "") for k in range(groups)]
kw.plots.RegularizationPathDisplay(path.alphas, path.df, path.weights, names, None, "kernel weight").plot(
    most=4
)

# %%
# Coefficients come with the weights: at each alpha those of a whole group are zero, or none.
k = int(np.argmin(np.abs(path.df - 25)))
plt.figure(figsize=(7.5, 3), layout="constrained")
plt.stem(
    path.feature_coef[k], markerfmt=".", basefmt=" ", label=f"estimated, {path.df[k]:.0f} degrees of freedom"
)
plt.plot(truth.ravel(), ".", color="#D55E00", alpha=0.5, label="true")
plt.xlabel("column")
plt.ylabel("coefficient")
plt.legend(frameon=False)

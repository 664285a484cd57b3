"""
How do I know that it has converged?
====================================

By two numbers that close in on the optimum from both sides. Their difference is the gap, and it can be computed again
from the result alone.
"""

# %%
# SimpleMKL on ten Gaussian kernels: the default solver, the reduced gradient of its paper, and cutting planes.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import kernelweave as kw

X, y = load_breast_cancer(return_X_y=True)
X, y = StandardScaler().fit_transform(X)[::3], np.where(y[::3] > 0, 1, 0)
bank = [kw.kernels.RBF(gamma=g) for g in np.geomspace(1e-3, 1.0, 10)]
figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
for solver, marker in (("newton", "o"), ("reduced-gradient", "s"), ("cutting-plane", "^")):
    model = kw.MKLClassifier(bank, kw.learners.SimpleMKL(C=10.0, solver=solver, tol=1e-6)).fit(X, y)
    gaps = model.history_[0]["rel_gap"]
    ax.semilogy(np.arange(1, len(gaps) + 1), gaps, marker=marker, markersize=4, label=solver)
    print(f"{solver}: {len(gaps)} steps, objective {model.objective_:.6f}, relative gap {model.rel_gap_:.0e}")
ax.set(xlabel="step", ylabel="relative gap", xscale="log")
ax.legend(frameon=False)

# %%
# The same problem on arrays, verified: primal and dual value are computed again from weights, coefficients and data.
gram = np.stack([kernel(X) for kernel in bank], axis=-1)
signs = np.where(y > 0, 1.0, -1.0)
found = kw.solve_svm_mkl(gram, signs, C=10.0, tol=1e-6)
print(found.verify(kw.problems.margin_problem(gram, signs, C=10.0)).status.name)

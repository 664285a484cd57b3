"""
Which group of measurements matters?
====================================

Breast cancer: ten measurements of cell nuclei, each as a mean, an error and a worst value. The three groups are
views; every view gets a linear and a Gaussian kernel, and the model learns one weight for each of the six.
"""

# %%
# Fit a path with cross-validation. The strongest regularisation within one standard error of the best is taken.
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import kernelweave as kw

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
views = {kind: [c for c in X if kind in c] for kind in ("mean", "error", "worst")}
kernels = kw.banks.views(views, kernels=[kw.kernels.Linear(), kw.kernels.RBF(gamma=0.1)])
model = kw.MKLClassifierCV(kernels, standardize=True, rule="1se").fit(X_train, y_train)
print(f"accuracy {model.score(X_test, y_test):.3f}; the objective is certified to {model.rel_gap_:.0e}")

# %%
# The choice of alpha, with a band of one standard error.
kw.plots.CVCurveDisplay.from_estimator(model)

# %%
# The weights of the kernels.
kw.plots.KernelWeightsDisplay.from_estimator(model)

# %%
# And how they came about along the path, from strong to weak regularisation.
kw.plots.RegularizationPathDisplay.from_estimator(model)

# %%
# A weight says how cheap a kernel is to use; its contribution says how much it moves the decision.
kw.plots.KernelContributionsDisplay.from_estimator(model, X_test)

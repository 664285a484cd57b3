"""
Do criteria in closed form agree with cross-validation?
=======================================================

On few columns and linear kernels, nearly: Mallows' Cp and generalised cross-validation choose an alpha close to that of
ten folds, BIC a larger one.
"""

# %%
# Diabetes progression with a linear kernel for each column. Degrees of freedom come with the path, so that the criteria
# cost nothing more.
from sklearn.datasets import load_diabetes

import kernelweave as kw

X, y = load_diabetes(return_X_y=True, as_frame=True)
model = kw.MKLRegressorCV(kw.banks.linear_features(X.shape[1]), cv=10).fit(X, y)
print(f"cross-validation chooses alpha = {model.alpha_:.3g}; relative gap {model.rel_gap_:.0e}")
kw.plots.SelectionCriteriaDisplay.from_estimator(model)

# %%
# The curve of the folds, with one standard error.
kw.plots.CVCurveDisplay.from_estimator(model)

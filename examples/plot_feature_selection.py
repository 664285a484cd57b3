"""
Which columns predict the progression of diabetes?
==================================================

Six of ten, fewer with more regularisation: with one linear kernel for each column, RLS2 is a lasso with another
parameter, and most weights are exactly zero.
"""

# %%
# Diabetes progression, ten columns. Coefficients against degrees of freedom:
from sklearn.datasets import load_diabetes
from sklearn.feature_selection import SelectFromModel

import kernelweave as kw

X, y = load_diabetes(return_X_y=True, as_frame=True)
model = kw.MKLRegressorCV(kw.banks.linear_features(X.shape[1]), rule="1se").fit(X, y)
print(f"relative gap {model.rel_gap_:.0e}")
kw.plots.RegularizationPathDisplay.from_estimator(model, what="coef", x="df")

# %%
# The estimator has ``coef_``, so scikit-learn's selector works with it.
selector = SelectFromModel(model, prefit=True, threshold=1e-8)
print("kept:", list(X.columns[selector.get_support()]))

# %%
# The Gaussian-process reading gives standard deviations.
mean, std = model.predict(X.iloc[:3], return_std=True)
for m, s in zip(mean, std, strict=True):
    print(f"{m:.0f} +- {s:.0f}")

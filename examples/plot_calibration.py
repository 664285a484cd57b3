"""
Can its probabilities be believed?
==================================

With the logistic loss, nearly: among rows with a predicted probability near p about a share p is benign. A sigmoid on
the decision values of the hinge is no better here than moving these values to 0 to 1.
"""

# %%
# Breast cancer with only three columns, so that there is something to be unsure about. Half of the rows are kept for
# the reliability diagram; on its diagonal probabilities are shares.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import brier_score_loss

import kernelweave as kw

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = X[["mean texture", "mean smoothness", "mean symmetry"]]
kernels = [kw.kernels.Linear(), kw.kernels.RBF(gamma="median"), kw.kernels.RBF(gamma=("median", 4.0))]
options = {"standardize": True}
logistic = kw.MKLClassifier(kernels, kw.learners.SimpleMKL(C=1.0, loss="logistic"), **options).fit(
    X[::2], y[::2]
)
platt = (
    kw.MKLClassifier(kernels, kw.learners.SimpleMKL(C=1.0), **options).fit(X[::2], y[::2]).calibrate("platt")
)
values = (
    kw.MKLClassifier(kernels, kw.learners.SimpleMKL(C=1.0), **options)
    .fit(X[::2], y[::2])
    .decision_function(X[1::2])
)
squeezed = (values - values.min()) / (values.max() - values.min())
print(f"certified: {logistic.rel_gap_:.0e} and {platt.rel_gap_:.0e}")

# %%
figure, ax = plt.subplots(figsize=(5, 4.5), layout="constrained")
for name, p in {
    "logistic loss": logistic.predict_proba(X[1::2])[:, 1],
    "hinge, Platt": platt.predict_proba(X[1::2])[:, 1],
    "hinge, values moved to 0 to 1": squeezed,
}.items():
    label = f"{name} (Brier {brier_score_loss(y[1::2], np.clip(p, 0, 1)):.3f})"
    CalibrationDisplay.from_predictions(
        y[1::2], np.clip(p, 0, 1), n_bins=6, strategy="quantile", name=label, ax=ax
    )
ax.legend(frameon=False, fontsize="small", loc="upper left")

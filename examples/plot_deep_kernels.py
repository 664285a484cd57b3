"""
What do layers of kernels learn?
================================

Breast cancer with three layers of kernels: the weights of each, how they came about, and what they do to the kernel
matrices. On these data they predict as well as equal weights.
"""

# %%
# Some training rows are set aside to say when to stop. Beside it, the same kernel with equal weights.
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import kernelweave as kw

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
y = y.map({0: "malignant", 1: "benign"})
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
options = {"normalize": "cosine", "standardize": True}
learner = kw.learners.MLMKL(n_layers=3, C=10.0, validation_fraction=0.2)
model = kw.MKLClassifier(kw.banks.mlmkl(), learner, **options).fit(X_train, y_train)
equal = kw.MKLClassifier(kw.banks.mlmkl(), kw.learners.DeepUniform(n_layers=3, C=10.0), **options)
print(
    f"accuracy {model.score(X_test, y_test):.3f}, equal weights {equal.fit(X_train, y_train).score(X_test, y_test):.3f}"
)

print(f"not convex: a local minimum, status {model.status_}")

# %%
# A row for each kernel, a column for each layer.
kw.plots.LayerWeightsDisplay.from_estimator(model)

# %%
# The criterion is a loss on rows that the machine has not seen; the dotted line is the step that was kept.
kw.plots.DescentDisplay.from_estimator(model)

# %%
# Training rows sorted by class, with equal weights above and with learnt ones below.
kw.plots.KernelMatricesDisplay.from_estimator(model)

# %%
# Eigenvalues without the mean, which the intercept takes up: deeper layers have flatter tails.
kw.plots.LayerSpectraDisplay.from_estimator(model, center=True)

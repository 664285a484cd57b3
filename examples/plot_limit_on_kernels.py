"""
How many measurements are enough?
=================================

Branch and bound finds the best k columns with a proof. After a few, more of them hardly lower the objective.
"""

# %%
# Breast cancer, a linear kernel for each of the ten means. For k from 1 to 6 the best subset of kernels, certified
# over all subsets; the dashed line is the optimum without a limit.
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

import kernelweave as kw

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = X[[c for c in X if c.startswith("mean")]]
bank = [kw.kernels.Linear().on([c]) for c in X]
options = {"standardize": True}
limits, objectives, scores = range(1, 7), [], []
for k in limits:
    model = kw.MKLClassifier(bank, kw.learners.CardinalityMKL(C=1.0, k=k), **options).fit(X[::2], y[::2])
    objectives.append(model.objective_)
    scores.append(model.score(X[1::2], y[1::2]))
    kept = [name for name, w in zip(model.kernel_names_, model.weights_, strict=True) if w > 0]
    print(f"k = {k}: gap {model.rel_gap_:.0e} over all subsets; {', '.join(str(name)[15:] for name in kept)}")
free = kw.MKLClassifier(bank, kw.learners.SimpleMKL(C=1.0), **options).fit(X[::2], y[::2])

# %%
figure, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
ax.plot(limits, objectives, "o-", color="#0072B2")
ax.axhline(free.objective_, color="#0072B2", linestyle="--")
ax.set(xlabel="most columns", ylabel="objective")
right = ax.twinx()
right.plot(limits, scores, "s-", color="#D55E00")
right.set_ylabel("accuracy on other rows", color="#D55E00")

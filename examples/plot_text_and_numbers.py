"""
Do the notes add anything to the numbers?
=========================================

Yes: simulated patients have a laboratory table and a note, each with a part of the outcome. The model with both sources
is more accurate than with either, and gives weight to both.
"""

# %%
# Texts are a view like any other: kernels count words (weighted by how rare they are) and strings of characters, and
# counts stay sparse.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kernelweave as kw
from kernelweave.kernels import RBF, CharNGrams, Linear, Tokens

rng = np.random.default_rng(0)
n = 240
lab = pd.DataFrame(rng.normal(size=(n, 8)), columns=[f"value {k}" for k in range(8)])
cough, fever = rng.integers(2, size=(2, n))
words = np.array(["patient", "since", "week", "pain", "rest", "sleep", "appetite", "visit", "work", "walk"])
notes = [
    " ".join([*rng.choice(words, 12), *["coughing"] * c, *["feverish"] * f])
    for c, f in zip(cough, fever, strict=True)
]
y = np.where(
    lab["value 0"] + lab["value 1"] + 1.5 * (cough + fever - 1) + rng.normal(scale=0.7, size=n) > 0,
    "ill",
    "well",
)
data = kw.Views({"laboratory": lab, "note": notes})

# %%
# Cross-validated accuracy with one source and with both, and the weights of the model with both.
banks = {"laboratory": [Linear(), RBF(gamma="median")], "note": [Tokens(), CharNGrams(n=(2, 4))]}
scores = {}
for name in (("laboratory",), ("note",), ("laboratory", "note")):
    views = kw.Views({view: {"laboratory": lab, "note": notes}[view] for view in name})
    svm = kw.MKLClassifier({view: banks[view] for view in name}, learner="simple", C=1.0)
    scores[" and\n".join(name)] = kw.inspection.out_of_fold_scores(svm, views, y)["accuracy"]
model = svm.fit(data, y)
print(kw.inspection.view_weights(model), f"relative gap {model.rel_gap_:.0e}")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.bar(
    scores.keys(),
    [s.value for s in scores.values()],
    yerr=np.transpose([[s.value - s.low, s.high - s.value] for s in scores.values()]),
)
left.set_ylim(0.5, 1.0)
left.set_ylabel("accuracy out of fold, 95 % interval")
kw.plots.KernelWeightsDisplay.from_estimator(model, ax=right)

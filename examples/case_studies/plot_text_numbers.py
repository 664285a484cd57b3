"""
Does a sentence say more than the numbers beside it?
====================================================

Much more: which part of SciPy a function belongs to is told by the first sentence about it in 87 % of the cases,
by counts of arguments, examples and references in 62 %, and by both hardly better than by the sentence.
"""

# %%
# The rows are functions of SciPy, which is installed wherever this library is (shares change a little with its
# version): the sentence that describes each, without its name, and numbers about its signature and description.
import importlib
import inspect
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import kernelweave as kw
from kernelweave.kernels import RBF, CharNGrams, Linear, Tokens

rows = []
for part in ("linalg", "signal", "stats", "ndimage", "sparse", "interpolate", "optimize"):
    module = importlib.import_module(f"scipy.{part}")
    for name in module.__all__:
        function = getattr(module, name)
        text = inspect.getdoc(function) or ""
        if not inspect.isfunction(function) or len(text) < 40:
            continue
        first = next(paragraph for paragraph in text.split("\n\n") if len(paragraph) > 30)
        sentence = re.sub(rf"\b{re.escape(name)}\b", "", first, flags=re.I)
        arguments = inspect.signature(function).parameters.values()
        rows.append(
            {
                "part": part,
                "sentence": " ".join(sentence.split()),
                "arguments": len(arguments),
                "with a default": sum(a.default is not a.empty for a in arguments),
                "by name only": sum(a.kind is a.KEYWORD_ONLY for a in arguments),
                "log of description": np.log(len(text)),
                "examples": text.count(">>>"),
                "references": text.count(".. ["),
            }
        )
table = pd.DataFrame(rows).drop_duplicates("sentence").reset_index(drop=True)
y = table.pop("part").to_numpy()
numbers = table.drop(columns="sentence")
print(f"{len(table)} functions;", f"{table.sentence[0]!r}")

# %%
# Texts are a view beside the numbers; their kernels count words, weighted by how rare these are, and strings of
# characters.
views = {"numbers": numbers, "sentence": list(table.sentence)}
bank = {
    "numbers": [k.prepared("standardize") for k in (Linear(), RBF(gamma="median"))],
    "sentence": [Tokens(), CharNGrams(n=(3, 5))],
}
folds = StratifiedKFold(5, shuffle=True, random_state=0)


def model(names):
    return kw.MKLClassifier({name: bank[name] for name in names}, learner="simple", C=10.0)


right = {}
for names in (["numbers"], ["sentence"], ["numbers", "sentence"]):
    data = kw.Views({name: views[name] for name in names})
    right[" and ".join(names)] = cross_val_predict(model(names), data, y, cv=folds) == y
last = model(names).fit(data, y)
print({name: f"{found.mean():.3f}" for name, found in right.items()})
print(
    f"weights {kw.inspection.view_weights(last)}; largest relative gap of all machines {np.max(last.rel_gap_):.0e}"
)

# %%
# Share of the functions of each part that were assigned to it, over the left-out folds.
parts = sorted(set(y), key=lambda part: -right["numbers and sentence"][y == part].mean())
figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
for (name, found), shift, colour in zip(
    right.items(), (-0.27, 0, 0.27), ("#999999", "#56B4E9", "#0072B2"), strict=True
):
    shares = [found[y == part].mean() for part in parts]
    ax.bar(
        np.arange(len(parts)) + shift, shares, 0.25, color=colour, label=f"{name}: {found.mean():.2f} of all"
    )
ax.set_xticks(range(len(parts)), [f"{part}\n{np.sum(y == part)}" for part in parts])
ax.set(ylabel="share found", xlabel="part of SciPy, and its number of functions", ylim=(0, 1.25))
ax.legend(frameon=False, ncols=3, loc="upper center")

"""
Which fingerprints tell how well a molecule dissolves?
======================================================

Several at once: fingerprints that count different parts of molecules share the weight with descriptors, and together
they predict with a smaller error than the usual single fingerprint.
"""

# %%
# Hydration free energies of 642 small molecules (FreeSolv), in kcal/mol, from ``freesolv.csv`` in the folder that the
# variable KERNELWEAVE_DATA names. Without it the page has made-up chains of groups, of which each adds its own amount.
# Fingerprints are computed by RDKit (``pip install 'kernelweave[chemistry]'``); without it kernels of texts compare the
# strings of molecules.
import os
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kernelweave as kw

path = Path(os.environ.get("KERNELWEAVE_DATA", "")) / "freesolv.csv"
if path.is_file():
    frame = pd.read_csv(path)
    y = frame["expt"].to_numpy()
    print("molecules of FreeSolv")
else:
    groups = {"C": 0.2, "O": -2.0, "N": -1.5, "C(=O)": -3.0, "c1ccc(cc1)": -0.9, "C(Cl)": -0.5, "C(C)": 0.3}
    rng = np.random.default_rng(0)
    chains = [rng.choice(list(groups), rng.integers(1, 7)) for _ in range(300)]
    frame = pd.DataFrame({"smiles": ["C" + "".join(chain) + "C" for chain in chains]})
    y = np.array([sum(groups[one] for one in chain) for chain in chains]) + 0.3 * rng.normal(size=300)
    print("made-up molecules")
if find_spec("rdkit"):
    bank = kw.banks.molecules("smiles")
else:
    bank = kw.banks.texts("smiles")
    print("RDKit is not installed: kernels of texts instead of fingerprints")

# %%
# The bank, and its first kernel alone, on four fifths of the molecules, with the learner and the normaliser of a fit
# without kernels.
order = np.random.default_rng(0).permutation(len(y))
train, test = np.split(order, [round(0.8 * len(y))])
learner = kw.learners.RLS2(alpha="auto", relax="auto")
model = kw.MKLRegressor(bank, learner=learner, normalize="center").fit(frame.iloc[train], y[train])
single = kw.MKLRegressor(bank[:1], learner=learner, normalize="center").fit(frame.iloc[train], y[train])
for name, one in (("bank", model), (str(single.kernel_names_[0]), single)):
    error = np.sqrt(np.mean(np.square(one.predict(frame.iloc[test]) - y[test])))
    print(f"{name}: root mean squared error {error:.2f}, relative gap {one.rel_gap_:.0e}")

# %%
# The share of every kernel, and predictions of the molecules that were held out.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", width_ratios=(1.4, 1))
kw.plots.KernelWeightsDisplay.from_estimator(model, ax=left)
right.scatter(y[test], model.predict(frame.iloc[test]), s=12)
right.axline((y.mean(), y.mean()), slope=1.0, color="0.6", linewidth=1.0)
right.set_xlabel("measured")
right.set_ylabel("predicted")

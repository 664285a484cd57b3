"""How far the peak memory of a fit grows, against `max_memory`: ``python benchmarks/memory.py [fit] [grid]``.

Every case runs in a process of its own. Growth is that of the peak resident size (``ru_maxrss``) from just before the
training stack is assembled until it is normalised, or with ``fit`` until the model is fitted. With ``grid``, Gaussians
of all sizes and budgets instead of the list of representations.
"""

import json
import subprocess
import sys

CASE = """
import json, resource, sys, time
import numpy as np
import kernelweave as kw
import kernelweave.estimators.estimator
from kernelweave.fitting.task import problems_of

n, n_kernels, budget, normalize, what, whole = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
X = rng.normal(size=(n, 10))
y = np.sign(X[:, 0] + rng.normal(size=n))
if what == "gaussians":
    bank = [kw.kernels.RBF(gamma=g) for g in np.geomspace(0.01, 1.0, n_kernels)]
elif what == "low rank":
    # Gaussians so wide that a factor replaces them, where the budget lets one be looked for
    bank = [kw.kernels.RBF(gamma=g).on([0]) for g in np.geomspace(1e-4, 1e-2, n_kernels)]
elif what == "features":
    X = np.repeat(X, 10, axis=1) + rng.normal(size=(n, 100))
    bank = [kw.kernels.Linear().on(list(range(k % 50, k % 50 + 50))) for k in range(n_kernels)]
else:
    X = np.c_[X, rng.normal(size=(n, n_kernels))]
    bank = kw.banks.linear_features(X.shape[1])[:n_kernels]

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

found = {}
assemble = problems_of

def watched(task):
    found["before"] = peak()
    started = time.process_time()
    setups = assemble(task)
    found["seconds"] = time.process_time() - started
    found["growth"] = peak() - found["before"]
    found["gram"] = setups[0].gram.describe()
    if not whole:
        raise KeyboardInterrupt
    return setups

kernelweave.estimators.estimator.problems_of = watched
model = kw.MKLClassifier(bank, kw.learners.RLS2(alpha=10.0), normalize=normalize, max_memory=budget)
# BLAS makes its buffers now
np.linalg.cholesky(np.eye(64)) @ np.ones((64, 64))
try:
    model.fit(X, y)
    found["fit"] = peak() - found["before"]
except KeyboardInterrupt:
    pass
print(json.dumps(found))
"""

CASES = [
    (2000, 50, "1GB", "mean-diagonal", "gaussians"),
    (2000, 50, "1GB", "center", "gaussians"),
    (2000, 50, "1GB", "cosine", "gaussians"),
    (2000, 50, "200MB", "mean-diagonal", "gaussians"),
    (2000, 50, "50MB", "mean-diagonal", "gaussians"),
    (2000, 50, "50MB", "center", "gaussians"),
    (2000, 50, "50MB", "cosine", "gaussians"),
    (2000, 50, "50MB", "mean-diagonal", "low rank"),
    (2000, 500, "50MB", "mean-diagonal", "features"),
    (2000, 500, "200MB", "center", "features"),
    (2000, 500, "50MB", "center", "columns"),
]

GRID = [
    (n, n_kernels, budget, "mean-diagonal", "gaussians")
    for n in (2000, 4000, 6000)
    for n_kernels in (50, 500)
    for budget in ("50MB", "200MB", "1GB", "4GB")
]


def measure(case, whole):
    done = subprocess.run(
        [sys.executable, "-c", CASE, json.dumps([*case, whole])], capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return json.loads(done.stdout)


def main(arguments):
    whole = "fit" in arguments
    print(
        f"{'rows':>5} {'kernels':>7} {'of':10} {'budget':>6} {'normalize':13} {'growth':>8} {'seconds':>8}  held as"
    )
    for case in GRID if "grid" in arguments else CASES:
        found = measure(case, whole)
        rows, kernels, budget, normalize, what = case
        growth, seconds = f"{found['fit' if whole else 'growth']:.0f} MB", found["seconds"]
        line = f"{rows:5} {kernels:7} {what:10} {budget:>6} {normalize:13} {growth:>8} {seconds:8.1f}"
        print(line, found["gram"], sep="  ", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

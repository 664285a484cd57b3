"""Features, kernel matrices and sums over rows as NumPy arrays, as tensors on the processor, and on a GPU.

    python -m benchmarks.devices benchmarks/results/devices.json

Needs torch. A GPU is measured where torch finds one; its first, warming run is not counted. "passes" are tensors on the
processor whose passes torch makes, as it does on a GPU, instead of the compiled loops.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

import kernelweave as kw  # noqa: E402
from kernelweave.gram import features as features_module  # noqa: E402
from kernelweave.gram import row_checks, stack  # noqa: E402

ALPHAS = 10
#: Rows and features of the two problems on features and of the sums, rows and kernels of that on matrices.
SIZES = {
    "path of features": (20_000, 2_000),
    "path of kernels": (1_500, 40),
    "sums over rows": (100_000, 500),
}


def features(n: int, p: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Columns, and targets of twenty of them, half signal and half noise."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((n, p), dtype=np.float32)
    signal = Z[:, : 10 * 20 : 10] @ rng.uniform(0.5, 1.5, size=len(range(0, min(p, 200), 10)))
    y = signal + rng.standard_normal(n) * signal.std()
    return Z.astype(dtype), y - y.mean()


def kernels(n: int, n_kernels: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian kernels of single columns."""
    X, y = features(n, max(n_kernels, 200), "float64")
    X = X[:, :n_kernels]
    return np.exp(-0.5 * np.square(X[:, None] - X)).astype(dtype), y


@contextmanager
def passes_by_torch() -> Iterator[None]:
    """Tensors on the processor are treated like those on a GPU."""
    with ExitStack() as patches:
        for module in (features_module, stack, row_checks):
            patches.enter_context(mock.patch.object(module, "on_host", return_value=False))
        yield


def tasks(sizes: dict[str, tuple[int, int]], dtype: str) -> Iterator[tuple[str, Any, Callable[[Any], Any]]]:
    """Names, arrays, and what is done with them."""
    n, p = sizes["path of features"]
    Z, y = features(n, p, dtype)
    groups = np.arange(0, p + 1, 10)
    alphas = np.geomspace(0.3, 0.01, ALPHAS) * n
    yield "path of features", Z, lambda A: kw.rls2_path(kw.FeatureStack(A, groups), y, alphas, tol=1e-4)
    n, m = sizes["path of kernels"]
    gram, targets = kernels(n, m, dtype)
    strengths = np.geomspace(0.1, 0.001, ALPHAS) * n
    yield "path of kernels", gram, lambda A: kw.rls2_path(A, targets, strengths, tol=1e-4)
    n, p = sizes["sums over rows"]
    rows, sums = features(n, p, dtype)
    yield "sums over rows", rows, lambda A: kw.rows.block_statistics(A, sums, progress=False).ZtZ


def measure(given: Any, run: Callable[[Any], Any], times: int, wait: Callable[[], None]) -> dict[str, Any]:
    """Least wall and CPU seconds, and the largest relative gap of a path."""
    walls, cpus = [], []
    found: Any = None
    for _ in range(times):
        wait()
        wall, cpu = time.perf_counter(), time.process_time()
        found = run(given)
        wait()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    gap = float(found.rel_gap.max()) if hasattr(found, "rel_gap") else None
    return {"wall": round(min(walls), 3), "cpu": round(min(cpus), 3), "rel_gap": gap}


def run(sizes: dict[str, tuple[int, int]], times: int = 2) -> list[dict[str, Any]]:
    """Records of all tasks, types and places."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    records = []
    for dtype in ("float64", "float32"):
        for task, array, work in tasks(sizes, dtype):
            tensor = torch.from_numpy(array)
            one = {"task": task, "dtype": dtype, "shape": list(array.shape)}
            records.append(one | {"place": "NumPy"} | measure(array, work, times, lambda: None))
            records.append(one | {"place": "torch, processor"} | measure(tensor, work, times, lambda: None))
            with passes_by_torch():
                found = measure(tensor, work, times, lambda: None)
            records.append(one | {"place": "torch, processor, passes"} | found)
            if torch.cuda.is_available():
                there = tensor.to("cuda")
                work(there)
                place = {"place": torch.cuda.get_device_name()}
                records.append(one | place | measure(there, work, times, torch.cuda.synchronize))
                del there
    return records


def main() -> None:
    """Measure, and write a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--share", type=float, default=1.0, help="of the rows")
    options = parser.parse_args()
    import torch

    sizes = {name: (int(n * options.share), p) for name, (n, p) in SIZES.items()}
    records = run(sizes)
    about = {
        "machine": platform.processor() or platform.machine(),
        "threads": os.environ["OMP_NUM_THREADS"],
        "load": os.getloadavg()[0],
        "versions": {"kernelweave": kw.__version__, "numpy": np.__version__, "torch": torch.__version__},
    }
    options.out.write_text(json.dumps(about | {"records": records}, indent=1) + "\n")
    for one in records:
        print(
            f"{one['task']:18} {one['dtype']} {one['place']:26} {one['wall']:8.2f} s wall {one['cpu']:8.2f} s CPU"
        )


if __name__ == "__main__":
    main()

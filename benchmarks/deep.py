"""Deep kernels: forward and backward passes against the memory they must touch, fits per second, and torch."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import blas

from benchmarks.cases import Array
from kernelweave._loops import packed_length
from kernelweave._threads import threads_for
from kernelweave.gram import PackedGram
from kernelweave.gram import packed as packed_module
from kernelweave.kernels import RBF, Linear, Polynomial
from kernelweave.learners import MLMKL
from kernelweave.learners.base import TrainingSet
from kernelweave.learners.on_features import Start
from kernelweave.learners.solving import Output
from kernelweave.mkl import layers as layers_module
from kernelweave.mkl.deep import DeepKernel
from kernelweave.mkl.layers import Layers

PAPER = (Linear(), RBF(1.0), Polynomial(2, 1.0), Polynomial(3, 1.0))
DEPTH = 3
N_FOLDS = 3


def made_up(n: int, n_columns: int = 6) -> tuple[PackedGram, Array]:
    """The paper's four kernels, cosine normalised, on Gaussian rows whose classes need a product of columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, n_columns))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    upper = np.triu_indices(n)
    D = X @ X.T
    square = np.square(X).sum(axis=1)
    packed = np.empty((4, packed_length(n)))
    packed[1] = np.exp(-np.maximum(square[:, None] + square - 2.0 * D, 0.0))[upper]
    for k, K in ((0, D), (2, (D + 1.0) ** 2), (3, (D + 1.0) ** 3)):
        root = np.sqrt(K.diagonal())
        packed[k] = (K / np.outer(root, root))[upper]
    return PackedGram(packed, n), y


def turns(functions: dict[str, Callable[[], Any]], repeat: int) -> dict[str, float]:
    """Medians of functions that take turns, after a round that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for k in range(repeat + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if k:
                seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def measure_pass(n: int, repeat: int) -> dict[str, Any]:
    """Three layers of four kernels, from the base triangles to the derivatives of all weights.

    ``once`` reads and writes every array that the pass holds a single time; ``traffic`` reads and writes them as often
    as the pass must: the base triangles for the sum and for the last derivative, every layer's kernel when it is made
    and used, forwards and backwards. Both move contiguous triangles and compute nothing, NumPy on one thread.
    """
    gram, _ = made_up(n)
    kernel = DeepKernel(gram, np.ones(4), Layers((PAPER,) * (DEPTH - 1)))
    weights = kernel.uniform()
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(N_FOLDS, n)) / n, rng.normal(size=(N_FOLDS, n))
    H = np.empty((n, n))

    blas.dsyr2k(0.5, left.T, right.T, beta=0.0, c=H.T, lower=1, overwrite_c=1)

    def whole() -> None:
        # the derivatives of an earlier pass serve as H: what is in it does not matter for time
        kernel.forward(weights)
        kernel.backward(H)

    def arrays() -> None:
        layers_module.HAS_EXTENSION = False
        try:
            whole()
        finally:
            layers_module.HAS_EXTENSION = True

    length = packed_length(n)
    base = np.ones((4, length))
    held = [np.ones(length) for _ in range(DEPTH + 1)]  # K of every layer, and H

    def once() -> None:
        for row in base:
            row.sum()
        for array in held:
            np.negative(array, out=array)

    def traffic() -> None:
        for row in base:
            row.sum()
        held[0].fill(1.0)
        for below, above in pairwise(held[:-1]):
            np.copyto(above, below)
        np.negative(held[-2], out=held[-2])  # the mirrored half
        for below in held[: DEPTH - 1]:
            below.sum()
            np.negative(held[-1], out=held[-1])
        held[-1].sum()
        for row in base:
            row.sum()

    def one_thread() -> None:
        plain = layers_module.threads_for, packed_module.threads_for
        layers_module.threads_for = packed_module.threads_for = lambda n: 1
        try:
            whole()
        finally:
            layers_module.threads_for, packed_module.threads_for = plain

    functions = {"pass": whole, "pass_one_thread": one_thread, "once": once, "traffic": traffic}
    if layers_module.HAS_EXTENSION:
        functions["arrays"] = arrays
    seconds = turns(functions, repeat)
    return {
        "case": "forward and backward",
        "n": n,
        "layers": DEPTH,
        "kernels": 4,
        **seconds,
        "threads": threads_for(n),
        "ratio_to_traffic": seconds["pass"] / seconds["traffic"],
        "ratio_to_traffic_one_thread": seconds["pass_one_thread"] / seconds["traffic"],
        "ratio_to_once": seconds["pass"] / seconds["once"],
        "speedup_over_arrays": seconds.get("arrays", np.nan) / seconds["pass"],
    }


def measure_fit(n: int) -> dict[str, Any]:
    """Outer iterations per second of a fit, machines included."""
    gram, y = made_up(n)
    record: dict[str, Any] = {"case": "fit", "n": n}
    for criterion in ("out-of-fold", "training"):
        learner = MLMKL(
            n_layers=DEPTH, C=1.0, criterion=criterion, step="fixed", eta=0.05, tol=1e-12, max_iter=10
        )
        training = TrainingSet(gram, y[:, None], np.ones(4), classification=True)
        start = time.perf_counter()
        found = learner.learn(Output(learner.problem(gram, y).form, 1e-4, training, Start()))
        record[criterion] = {
            "iterations_per_second": found.n_iter / (time.perf_counter() - start),
            "n_iter": found.n_iter,
        }
    return record


def measure_torch(n: int, device: str, repeat: int) -> dict[str, Any] | None:
    """The same pass on tensors, base kernels held on the device, beside the compiled one here."""
    try:
        import torch
    except ImportError:
        return None
    if device != "cpu" and not torch.cuda.is_available():
        return None
    gram, _ = made_up(n)
    layers = Layers((PAPER,) * (DEPTH - 1))
    kernel = DeepKernel(gram, np.ones(4), layers)
    weights = kernel.uniform()
    stack = torch.stack([torch.from_numpy(gram.combine(np.eye(4)[k])) for k in range(4)]).to(device)
    share = torch.full((4,), 0.25, dtype=torch.float64, device=device)
    H0 = torch.eye(n, dtype=torch.float64, device=device)

    def tensors() -> None:
        K = torch.tensordot(share, stack, dims=1)
        tape = layers.forward(K, torch.diagonal(K).clone(), weights[1:])
        _, H = layers.backward(tape, H0.clone())
        torch.tensordot(stack, H, dims=2).sum().item()

    H = np.empty((n, n))

    def compiled() -> None:
        kernel.forward(weights)
        np.copyto(H, 1.0)
        kernel.backward(H)

    seconds = turns({"torch": tensors, "compiled": compiled}, repeat)
    return {
        "case": "torch",
        "device": device,
        "n": n,
        **seconds,
        "ratio": seconds["compiled"] / seconds["torch"],
    }


def measure_deep(repeat: int) -> list[dict[str, Any]]:
    """Everything in this file."""
    records: list[dict[str, Any]] = []
    for n in (250, 500, 1000, 2000, 4000):
        records.append(measure_pass(n, 4 * repeat if n <= 1000 else repeat))
        print(json.dumps(records[-1]), flush=True)
    for n in (250, 500, 1000, 2000, 4000):
        records.append(measure_fit(n))
        print(json.dumps(records[-1]), flush=True)
    for device, sizes in (("cpu", (1000, 2000)), ("cuda", (4000, 8000, 20_000))):
        for n in sizes:
            found = measure_torch(n, device, min(repeat, 3))
            if found is not None:
                records.append(found)
                print(json.dumps(found), flush=True)
    return records

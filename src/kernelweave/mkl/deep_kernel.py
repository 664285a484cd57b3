"""A stack of base kernels with layers above, as a function of all weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._loops import core
from kernelweave.gram import Gram
from kernelweave.mkl.layers import Layers, Tape, TrainedLayers

Array = NDArray[np.float64]


@dataclass
class DeepKernel:
    """A stack of base kernels with layers above.

    Attributes
    ----------
    gram : Gram
    scale : array of shape (n_kernels,)
    layers : Layers
    device : str or None
        Torch device for the layers; None for NumPy.
    """

    gram: Gram
    scale: Array
    layers: Layers
    device: str | None = None
    _matrix: Array | None = field(default=None, repr=False)
    _tape: Tape | None = field(default=None, repr=False)

    @property
    def sizes(self) -> list[int]:
        """Number of weights of every layer."""
        return [self.gram.n_kernels, *(len(layer) for layer in self.layers.functions)]

    def uniform(self) -> list[Array]:
        """Equal weights that sum to 1 in every layer."""
        return [np.full(k, 1.0 / k) for k in self.sizes]

    def forward(self, weights: Sequence[Array]) -> Array:
        """The last kernel on the training rows, symmetric; the next call overwrites it."""
        n = self.gram.n_samples
        if self._matrix is None:
            self._matrix = np.empty((n, n))
        K = self.gram.combine_upper(weights[0] * self.scale, self._matrix)
        if not len(self.layers):
            core.mirror(K)
            self._tape = Tape([K], [K.diagonal().copy()], [])
            return K
        if self.device is None:
            self._tape = self.layers.forward(K, K.diagonal().copy(), weights[1:], self._tape)
            return self._tape.top
        core.mirror(K)
        moved = _to_device(K, self.device)
        self._tape = self.layers.forward(moved, _to_device(K.diagonal().copy(), self.device), weights[1:])
        return np.ascontiguousarray(_from_device(self._tape.top))

    def backward(self, H: Array) -> list[Array]:
        """Derivatives by all weights at the point of the last `forward`; H is overwritten, see `Layers.backward`."""
        if self._tape is None:
            raise RuntimeError("forward comes first")
        if self.device is None or not len(self.layers):
            upper, H = self.layers.backward(self._tape, H)
        else:
            core.mirror(H)
            upper, moved = self.layers.backward(self._tape, _to_device(H, self.device))
            H = np.ascontiguousarray(_from_device(moved))
        return [self.gram.inner(H) * self.scale, *upper]

    def trained(self, weights: Sequence[Array]) -> TrainedLayers | None:
        """The layers with weights and diagonals, for predictions; None without layers."""
        if not len(self.layers):
            return None
        kappa = (weights[0] * self.scale) @ self.gram.diagonal()
        diagonals = self.layers.diagonals(kappa, weights[1:])[:-1]
        return TrainedLayers(
            self.layers.functions,
            self.layers.cosine,
            tuple(np.array(w) for w in weights[1:]),
            tuple(np.asarray(d) for d in diagonals),
        )


def _to_device(x: Array, device: str) -> Any:
    try:
        import torch
    except ImportError as error:
        raise InputError(
            f"device={device!r} needs torch. Use pip install 'kernelweave[gpu]', or use None."
        ) from error
    try:
        return torch.from_numpy(np.ascontiguousarray(x)).to(device)
    except (RuntimeError, AssertionError) as error:
        # torch without CUDA fails an assertion; unknown names and a full memory are runtime errors
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"The torch device {device!r} cannot be used: {reason}") from error


def _from_device(x: Any) -> Array:
    return x.detach().cpu().numpy()

"""Kernels before learning: pictures of their Gram matrices, alignment with the target, and memory."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import memory_budget
from kernelweave._drawing import SEQUENTIAL
from kernelweave._errors import InputError
from kernelweave.estimators.texts import columns_read
from kernelweave.gram.building import MAX_RANK_SHARE
from kernelweave.kernels import TrainingRows
from kernelweave.views import Table, as_table
from kernelweave_app.runs.further_views import Tables
from kernelweave_app.runs.kernels_of import is_plain, known_kernels, make_kernels
from kernelweave_app.runs.preparing import Prepared, Rows, classes_of, sample_rows, split
from kernelweave_app.runs.spec import SURVIVAL, Spec
from kernelweave_app.studio.looking import alignment, centred, target_kernel
from kernelweave_app.studio.schema import KernelPreview, KernelPreviews

#: Rows for thumbnails and alignments.
SAMPLE = 300
#: Kernels whose alignment is computed, spread over all of them; more would take too long.
MOST_KERNELS = 800
#: Pixels of a thumbnail.
PIXELS = 56

Array = NDArray[np.float64]


def preview_kernels(spec: Spec, prepared: Prepared, most: int) -> KernelPreviews:
    """Describe the kernels of a run on a sample of its training rows.

    Parameters
    ----------
    spec : Spec
    prepared : Prepared
    most : int
        Thumbnails, of the best aligned kernels.

    Returns
    -------
    KernelPreviews
    """
    train, _ = split(prepared, spec)
    whole = _complete(train, prepared)
    rows = sample_rows(whole, classes_of(prepared, whole), SAMPLE, spec.seed)[: 2 * SAMPLE]
    frame = prepared.X.iloc[rows]
    tables = isinstance(frame, Tables)
    table = as_table(frame)
    bank = make_kernels(spec, prepared)
    plain = is_plain(bank)
    # categories that the sample lacks count too
    bank = known_kernels(bank, prepared.X.iloc[train], prepared.task)
    table = table.declared(columns_read(bank, table))
    if spec.standardize and not plain and not tables:
        table = _standardized(table)
    y = prepared.y[rows]
    target = centred(target_kernel(y, prepared.task))
    # of several targets the first one, of survival the time
    first = y if np.ndim(y) == 1 else y[:, int(prepared.task == SURVIVAL)]
    order = np.argsort(first.astype(str) if prepared.task == "classification" else first, kind="stable")
    found: list[tuple[float, int | None, Any]] = []
    # Gram matrices of the best ones so far
    best: dict[int, Array] = {}
    triangle = 8.0 * len(train) * (len(train) + 1) / 2
    memory = 0.0
    cap = max(4, int(len(train) * MAX_RANK_SHARE))
    training = TrainingRows(table)
    looked = np.linspace(0, len(bank) - 1, min(len(bank), MOST_KERNELS)).round().astype(int)
    for k, kernel in enumerate(bank[index] for index in looked):
        with np.errstate(all="ignore"):
            # names give the rule, because the numbers are those of the sample
            fitted = kernel.fitted_on(training)
            features = fitted.features(table)
            rank = features.shape[1] if features is not None and features.shape[1] <= cap else None
            K = np.asarray(fitted(table), dtype=np.float64)
        memory += 8.0 * rank * len(train) if rank is not None else triangle
        if not np.isfinite(K).all():
            raise InputError(f"Kernel {kernel.label!r} overflows on these rows. Standardise the columns.")
        found.append((alignment(centred(K), target), rank, kernel))
        best[k] = K
        if len(best) > most:
            # of equal ones the first is kept, as in the order below
            del best[min(best, key=lambda k: (found[k][0], -k))]
    memory *= len(bank) / max(len(looked), 1)
    ranking = sorted(range(len(found)), key=lambda k: -found[k][0])
    return KernelPreviews(
        n_kernels=len(bank),
        n_looked=len(looked),
        memory=int(memory),
        budget=int(memory_budget(spec.max_memory)),
        n_rows=len(train),
        n_sampled=len(rows),
        kernels=[
            KernelPreview(
                name=found[k][2].label,
                view=found[k][2].view,
                alignment=found[k][0],
                rank=found[k][1],
                thumbnail=thumbnail(best[k][np.ix_(order, order)]) if k in best else "",
            )
            for k in ranking
        ],
    )


def _complete(train: Rows, prepared: Prepared) -> Rows:
    """Training rows without missing cells: what a fit does with the others, it learns from all rows."""
    if isinstance(prepared.X, Tables):
        return train
    found = train[prepared.X.iloc[train].notna().all(axis=1).to_numpy()]
    if len(found) < 2:
        raise InputError(
            f"Kernels are shown on training rows without missing cells, and {len(found)} of {len(train)} have none. "
            "The run itself takes them all."
        )
    return found


def _standardized(table: Table) -> Table:
    values = table.values.copy()
    numeric = np.array([not level for level in table.levels])
    part = values[:, numeric]
    spread = part.std(axis=0)
    values[:, numeric] = (part - part.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return Table(values, table.names, table.levels, table.cells, table.dates)


def thumbnail(K: Array) -> str:
    """A small picture of a matrix, light where it is large, as a data address."""
    from PIL import Image

    edges = np.linspace(0, len(K), min(PIXELS, len(K)) + 1).astype(int)[:-1]
    counts = np.diff(np.r_[edges, len(K)])
    small = np.add.reduceat(np.add.reduceat(K, edges, axis=0), edges, axis=1) / np.outer(counts, counts)
    low, high = np.quantile(small, [0.01, 0.99])
    scaled = np.clip((small - low) / (high - low), 0, 1) if high > low else np.zeros_like(small)
    stream = io.BytesIO()
    Image.fromarray(_coloured(scaled)).save(stream, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"


def _coloured(shares: Array) -> NDArray[np.uint8]:
    """Colours of numbers from 0 to 1. Matplotlib has them too, but takes 30 MB of a server that draws no figures."""
    places = np.linspace(0.0, 1.0, len(SEQUENTIAL))
    levels = np.array([tuple(bytes.fromhex(colour[1:])) for colour in SEQUENTIAL], dtype=np.float64)
    found = np.stack([np.interp(shares, places, channel) for channel in levels.T], axis=-1)
    return found.round().astype(np.uint8)

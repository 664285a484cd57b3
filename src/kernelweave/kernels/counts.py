"""Kernels of counts: parts of the texts, sequences or graphs of one column, counted as sparse rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._parameters import ReadableSignature
from kernelweave._sparse import sq_norms, unit_rows
from kernelweave._types import FittedPart, csr_array
from kernelweave.kernels.base import FloatArray, Kernel
from kernelweave.kernels.learnt import Learnt
from kernelweave.kernels.steps import Step
from kernelweave.kernels.training_rows import TrainingRows
from kernelweave.views import Cells, GramTable, SparseTable, Table

__all__ = ["Vocabulary"]


@dataclass(frozen=True, eq=False, repr=False)
class Vocabulary(Learnt):
    """The terms that a kernel of counts has seen in training rows, such as words, and their weights.

    Attributes
    ----------
    terms : tuple of str
        Sorted.
    idf : array of shape (n_terms,), or None
        Weights of terms, ``log((1 + n) / (1 + n_t)) + 1`` of n rows of which n_t have the term.
    unseen : float
        The weight of all other terms.
    """

    __signature__ = ReadableSignature()

    terms: tuple[str, ...]
    idf: FittedPart = None
    unseen: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(self.terms))
        self._freeze("idf", "one weight for each term", 1)
        if self.idf is not None and len(self.idf) != len(self.terms):
            raise InputError(
                f"A vocabulary has one weight for each of its {len(self.terms)} terms, got {len(self.idf)}."
            )

    def __len__(self) -> int:
        return len(self.terms)

    def places(self, terms: Sequence[str]) -> NDArray[np.intp]:
        """Positions of terms, -1 for unknown ones.

        Parameters
        ----------
        terms : sequence of str
            Terms to look up.

        Returns
        -------
        array of int, shape (n_terms,)
        """
        return np.array([self._place.get(term, -1) for term in terms], dtype=np.intp)

    @cached_property
    def _place(self) -> dict[str, int]:
        return {term: j for j, term in enumerate(self.terms)}

    def __repr__(self) -> str:
        return f"<{len(self)} terms>"


def one_column(table: Table, reader: str, example: str, kind: type = str, what: str = "text") -> Cells:
    """The cells of a table of one column; `reader` says who reads them, `example` how it is put on a column."""
    of = f"{what.removesuffix('s')}s"
    if isinstance(table, (GramTable, SparseTable)):
        found = "a precomputed view" if isinstance(table, GramTable) else "sparse numbers"
        raise InputError(f"{reader} reads {what}, got {found}. Put it on a column of {of}: {example}.")
    if table.n_columns != 1:
        raise InputError(
            f"{reader} reads one column of {of}, got {table.n_columns} columns. Put it on one, {example}; several "
            "get a kernel each."
        )
    own = None if table.cells is None else table.cells[0]
    if own is None or own.are(str) != (kind is str):
        holds = "numbers or categories" if own is None else "text" if own.are(str) else "other objects"
        remedy = ", or make it one with frame.astype(str)" if kind is str else ""
        raise InputError(
            f"{reader} reads {what}, but column {table.column_names[0]!r} holds {holds}. Put it on a column of {of}, "
            f"{example}{remedy}."
        )
    return own


def rows_of(
    each: Sequence[Collection[str]], numbers: Sequence[float] | None = None
) -> tuple[csr_array, list[str]]:
    """Numbers of the terms of rows, ones if none are given, as sparse rows (n_rows, n_terms); and the terms, sorted."""
    from scipy import sparse

    terms = sorted(set().union(*each))
    place = {term: j for j, term in enumerate(terms)}
    columns = np.array([place[term] for own in each for term in own], dtype=np.intp)
    values = np.ones(len(columns)) if numbers is None else np.array(numbers, dtype=np.float64)
    ends = np.cumsum([0, *map(len, each)], dtype=np.intp)
    return sparse.csr_array((values, columns, ends), shape=(len(each), len(terms))), terms


#: Parameters of all kernels of counts, which are applied to counts.
OF_ALL = ("normalize", "learnt")


class CountKernel(Kernel, described=False):
    """Base of inner products of sparse counts: of the terms that `_count` finds in the cells of one column.

    Terms of the training rows are the vocabulary. Others, of new rows, enter the lengths of these rows only.
    """

    learnt: Vocabulary | None
    normalize: bool

    statistic: ClassVar[str] = "dot"
    #: Name of the counted terms.
    unit: ClassVar[str]
    #: The type of the cells, what they are called, and the name of a column of them.
    reads: ClassVar[type] = str
    what: ClassVar[str] = "text"
    example: ClassVar[str] = "note"

    @abstractmethod
    def _count(self, cells: NDArray[Any]) -> tuple[Any, list[str]]:
        """Sparse counts of all terms of these cells, shape (n_rows, n_terms), and the terms, sorted."""

    def _counted(self) -> Hashable:
        """The parameters on which counts depend; kernels with equal ones share them."""
        return tuple(getattr(self, one.name) for one in fields(self) if one.name not in OF_ALL)  # type: ignore[arg-type]

    def _vocabulary(self, terms: tuple[str, ...], n_rows: FloatArray, total: float) -> Vocabulary:
        """Of terms, the numbers of rows that have them, and that of all rows."""
        return Vocabulary(terms)

    def _weighted(self, counts: csr_array, terms: list[str]) -> csr_array:
        """Weighted counts."""
        return counts

    @property
    def is_fitted(self) -> bool:
        """Whether the terms of training rows are known."""
        return self.learnt is not None

    def _fit(self, rows: TrainingRows) -> Kernel:
        (counted,), _ = rows.after(self.preparation)
        assert isinstance(counted, Counted)
        return counted.kernel

    def learnt_from(self, table: Table, sample_weight: FloatArray | None) -> Self:
        """The kernel with the terms of these rows.

        Parameters
        ----------
        table : Table
            The training rows, with the one column of the kernel.
        sample_weight : array of shape (n_rows,), or None
            A weight is equivalent to repetitions of the row; None for equal ones.
        """
        counts, terms = self.counts(table)
        weight = np.ones(counts.shape[0]) if sample_weight is None else sample_weight
        present = counts.copy()
        present.data[:] = 1.0
        rows = weight @ present
        used = np.flatnonzero(rows > 0)
        vocabulary = self._vocabulary(tuple(terms[j] for j in used), rows[used], float(weight.sum()))
        return replace(self, learnt=vocabulary)  # type: ignore[type-var]

    @property
    def preparation(self) -> tuple[Step, ...]:
        """Counts of terms."""
        return (Counted(self),)

    def formula(self, xp, S, left, right):
        return S

    def counts(self, table: Table) -> tuple[csr_array, list[str]]:
        """Sparse counts of all terms of a column, shape (n_rows, n_terms), and the terms, sorted.

        Parameters
        ----------
        table : Table
            Rows with the one column of the kernel.
        """
        name = type(self).__name__
        cells = one_column(table, name, f"kernels.{name}().on({self.example!r})", self.reads, self.what)
        return cells.counted((name, self._counted()), self._count)

    def weighted(self, table: Table) -> tuple[csr_array, list[str]]:
        """Weighted counts of all terms of these rows, of length 1 with `normalize`, and the terms.

        Parameters
        ----------
        table : Table
            Rows with the one column of the kernel.
        """
        counts, terms = self.counts(table)
        weighted = self._weighted(counts, terms)
        return unit_rows(weighted) if self.normalize else weighted, terms

    def _numbers(self) -> Vocabulary:
        if self.learnt is None:
            raise InputError(f"{self!r} learns its terms from training rows. Call fitted(X) first.")
        return self.learnt

    def placed(self, table: Table, vocabulary: Vocabulary) -> csr_array:
        """Weighted counts of the terms of a vocabulary; others enter the lengths of rows only.

        Parameters
        ----------
        table : Table
            Rows with the one column of the kernel.
        vocabulary : Vocabulary
            The terms, one for each column of the result.

        Returns
        -------
        sparse array of shape (n_rows, max(1, n_terms))
        """
        from scipy import sparse

        weighted, terms = self.weighted(table)
        places = vocabulary.places(terms)
        columns = places[weighted.indices] if len(terms) else weighted.indices
        kept = columns >= 0
        ends = np.concatenate([[0], np.cumsum(kept)])[weighted.indptr]
        found = sparse.csr_array(
            (weighted.data[kept], columns[kept], ends), shape=(weighted.shape[0], max(1, len(vocabulary)))
        )
        found.sort_indices()
        return found

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        # the terms of the right side are enough, whichever rows the kernel was fitted on
        _, terms = self.counts(left if right is None else right)
        own = Vocabulary(tuple(terms))
        A = self.placed(left, own)
        B = A if right is None else self.placed(right, own)
        return (A @ B.T).toarray()

    def _diag(self, table: Table) -> FloatArray:
        return sq_norms(self.weighted(table)[0])

    def _features(self, table: Table) -> Any:
        return self.placed(table, self._numbers())

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        raise InputError(
            f"{type(self).__name__} reads {self.what}, which has no columns to prepare. Leave `prepared` out."
        )

    def _said(self) -> list[str]:
        """Parameters in labels."""
        given = ((one.name, getattr(self, one.name)) for one in fields(self))  # type: ignore[arg-type]
        return [f"{name}={value}" for name, value in given if type(value) is int]

    def _short(self, nested: bool = False) -> str:
        said = self._said()
        if self.learnt is not None:
            said.append(f"{len(self.learnt)} {self.unit}")
        return f"{type(self).__name__}({', '.join(said)})"

    def __repr__(self) -> str:
        """Of the first parameter, and of others where they are not the defaults."""
        first, *rest = fields(self)  # type: ignore[arg-type]
        given = [(one, getattr(self, one.name)) for one in rest]
        said = [f"{first.name}={self._written(getattr(self, first.name))}"]
        said += [f"{one.name}={value!r}" for one, value in given if value != one.default]
        return f"{type(self).__name__}({', '.join(said)})"

    @staticmethod
    def _written(first: object) -> str:
        """The first parameter in `repr`."""
        return repr(first)


@dataclass(frozen=True)
class Counted(Step):
    """The step from a column of cells to the sparse counts that a kernel compares."""

    kernel: CountKernel

    name: ClassVar[str] = "texts"
    word: ClassVar[str] = "counted"

    @property
    def reads_cells(self) -> type | None:  # type: ignore[override]
        """The type of the cells."""
        return self.kernel.reads

    @property
    def is_fitted(self) -> bool:
        """Whether the terms of training rows are known."""
        return self.kernel.is_fitted

    def _fit(self, table: Table, sample_weight: FloatArray | None) -> Self:
        return replace(self, kernel=self.kernel.learnt_from(table, sample_weight))

    def apply(self, table: Table) -> Table:
        """The counts as a table."""
        return SparseTable.of_checked(self.kernel._features(table), None)

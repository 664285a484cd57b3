"""Kernels of sequences of letters, such as DNA and proteins: counts of short pieces, exact, inexact or with gaps."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from math import comb
from typing import Annotated, Any, ClassVar, Self

from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._parameters import Switch, Text, Whole
from kernelweave._types import FittedPart
from kernelweave.kernels.base import FloatArray
from kernelweave.kernels.counts import CountKernel, one_column, rows_of
from kernelweave.kernels.text import LONGEST, counted
from kernelweave.views import Table

__all__ = ["Gapped", "Mismatch", "Spectrum"]

#: The most terms of all different pieces together.
MOST_TERMS = 2 * 10**7

Length = Annotated[int, Whole(1, LONGEST)]


class SequenceKernel(CountKernel, described=False):
    """Base of kernels of sequences: every piece of some length counts for the terms that are close to it."""

    k: int

    unit: ClassVar[str] = "k-mers"
    example: ClassVar[str] = "sequence"

    @property
    def _length(self) -> int:
        """The length of the pieces."""
        return self.k

    @abstractmethod
    def _terms(self, piece: str) -> list[str]:
        """The terms for which a piece counts, each once."""

    @property
    @abstractmethod
    def _n_terms(self) -> int:
        """At most so many terms of a piece of known letters."""

    def _count(self, cells: NDArray[Any]) -> tuple[Any, list[str]]:
        from scipy import sparse

        length = self._length
        found, pieces = counted(
            cells, analyzer=lambda text: [text[i : i + length] for i in range(len(text) - length + 1)]
        )
        if len(pieces) * self._n_terms > MOST_TERMS:
            raise InputError(
                f"{self!r} counts {len(pieces)} different pieces for up to {self._n_terms} terms each, more than "
                f"{MOST_TERMS} in all. Take shorter pieces, or allow for less."
            )
        close, terms = rows_of([self._terms(piece) for piece in pieces])
        return sparse.csr_array(found @ close), terms


@dataclass(frozen=True, repr=False)
class Spectrum(SequenceKernel):
    """The spectrum kernel of sequences: k(x, z) = sum_s c_s(x) c_s(z) over pieces s of k letters.

    c_s(x) is the number of places in x where s begins. By default rows have length 1, so that k is the cosine of the
    angle between counts.

    Parameters
    ----------
    k : int, default=3
        Number of letters.
    normalize : bool, default=True
        Divide by the lengths of both rows, ``sqrt(k(x, x) k(z, z))``. A sequence of fewer than k letters has
        similarity zero to all others.
    learnt : Vocabulary or None, default=None
        The pieces of training rows; set by `fitted`.

    Notes
    -----
    Put it on one column of sequences, ``Spectrum(4).on("dna")``, or on a view of sequences. Sequences are read letter
    by letter, as they are: case matters. Counts are sparse, and computed once for all kernels with the same k and all
    folds. :class:`CharNGrams` is the same of texts, whose case and white space do not matter.

    References
    ----------
    C. Leslie, E. Eskin, W. S. Noble, The spectrum kernel: a string kernel for SVM protein classification, PSB 2002.

    Examples
    --------
    >>> Spectrum(2, normalize=False)({"dna": ["ACACA", "ACG", "GGG"]})
    array([[8., 2., 0.],
           [2., 2., 0.],
           [0., 0., 4.]])
    """

    k: Length = 3
    normalize: Switch = True
    learnt: FittedPart = field(default=None, repr=False)

    _n_terms: ClassVar[int] = 1

    def _terms(self, piece: str) -> list[str]:
        return [piece]


@dataclass(frozen=True, repr=False)
class Mismatch(SequenceKernel):
    """The mismatch kernel of sequences: the spectrum kernel whose pieces may differ in up to m letters.

    Every piece of k letters counts for all strings s of k letters that differ from it in at most m places:
    k(x, z) = sum_s c_s(x) c_s(z).

    Parameters
    ----------
    k : int, default=4
        Number of letters.
    m : int, default=1
        The most letters that may differ, fewer than k.
    alphabet : str or None, default=None
        The letters that may stand in place of others. None: those of the training rows; set by `fitted`.
    normalize : bool, default=True
        Divide by the lengths of both rows, ``sqrt(k(x, x) k(z, z))``.
    learnt : Vocabulary or None, default=None
        The strings of training rows; set by `fitted`.

    Notes
    -----
    A piece counts for ``sum_i binom(k, i) (a - 1)^i`` strings, i = 0, ..., m, of an alphabet of a letters: 13 of DNA
    with k = 4 and m = 1, 96 of proteins with k = 5. Counts are sparse, and computed once for all folds.

    References
    ----------
    C. Leslie, E. Eskin, A. Cohen, J. Weston, W. S. Noble, Mismatch string kernels for discriminative protein
    classification, Bioinformatics 20, 2004.

    Examples
    --------
    >>> Mismatch(2, 1, alphabet="AC", normalize=False)({"dna": ["AA", "AC", "CC"]})
    array([[3., 2., 2.],
           [2., 3., 2.],
           [2., 2., 3.]])
    """

    k: Length = 4
    m: Annotated[int, Whole(0, LONGEST)] = 1
    alphabet: Annotated[str | None, Text() | None] = None
    normalize: Switch = True
    learnt: FittedPart = field(default=None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.m >= self.k:
            raise InputError(
                f"`m` of Mismatch must be less than k = {self.k}, got {self.m}. All strings would be alike."
            )
        if self.alphabet is not None:
            object.__setattr__(self, "alphabet", "".join(sorted(set(self.alphabet))))

    @property
    def _n_terms(self) -> int:
        others = len(self.alphabet or " ") - 1
        return sum(comb(self.k, i) * others**i for i in range(self.m + 1))

    def learnt_from(self, table: Table, sample_weight: FloatArray | None) -> Self:
        if self.alphabet is not None:
            return super().learnt_from(table, sample_weight)
        cells = one_column(table, "Mismatch", "kernels.Mismatch().on('sequence')")
        letters = "".join(sorted(set().union(*cells.values)))
        # sequences without letters have no pieces either
        return replace(self, alphabet=letters or "A").learnt_from(table, sample_weight)

    def _terms(self, piece: str) -> list[str]:
        found = {piece}
        for places in combinations(range(self.k), self.m):
            choices = [piece[i] + (self.alphabet or "") if i in places else piece[i] for i in range(self.k)]
            found.update(map("".join, product(*choices)))
        return sorted(found)


@dataclass(frozen=True, repr=False)
class Gapped(SequenceKernel):
    """The gappy kernel of sequences: k(x, z) = sum_s c_s(x) c_s(z) over strings s of k letters with up to g gaps.

    c_s(x) is the number of pieces of k + g letters of x in which the letters of s follow each other, with others
    between them or around them.

    Parameters
    ----------
    k : int, default=3
        Number of letters.
    g : int, default=1
        The most letters that are left out. 0 is :class:`Spectrum`.
    normalize : bool, default=True
        Divide by the lengths of both rows, ``sqrt(k(x, x) k(z, z))``. A sequence of fewer than k + g letters has
        similarity zero to all others.
    learnt : Vocabulary or None, default=None
        The strings of training rows; set by `fitted`.

    References
    ----------
    C. Leslie, R. Kuang, Fast string kernels using inexact matching for protein sequences, JMLR 5, 2004.

    Examples
    --------
    >>> Gapped(2, 1, normalize=False)({"dna": ["ACG", "AG", "ATG"]})
    array([[3., 0., 1.],
           [0., 0., 0.],
           [1., 0., 3.]])
    """

    k: Length = 3
    g: Annotated[int, Whole(0, LONGEST)] = 1
    normalize: Switch = True
    learnt: FittedPart = field(default=None, repr=False)

    @property
    def _length(self) -> int:
        return self.k + self.g

    @property
    def _n_terms(self) -> int:
        return comb(self.k + self.g, self.k)

    def _terms(self, piece: str) -> list[str]:
        return sorted(set(map("".join, combinations(piece, self.k))))

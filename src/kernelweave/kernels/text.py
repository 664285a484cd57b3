"""Kernels of texts: character n-grams and words, as sparse counts, with a vocabulary from training rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._parameters import Rule, Switch, Text, Unfit, Whole, listed
from kernelweave._types import FittedPart, csr_array
from kernelweave.kernels.base import FloatArray
from kernelweave.kernels.counts import CountKernel, Vocabulary

__all__ = ["CharNGrams", "Tokens"]

#: The longest n-grams.
LONGEST = 50


@dataclass(frozen=True)
class Lengths(Rule):
    """Lengths of n-grams: one, or the least and the most."""

    def read(self, value: object) -> tuple[int, int]:
        each = Whole(1, LONGEST)
        pair = listed(value)
        least, most = (value, value) if pair is None else pair if len(pair) == 2 else (None, None)
        low, high = each.read(least), each.read(most)
        if low > high:
            raise Unfit("The least length comes first.")
        return low, high

    def words(self) -> str:
        return f"a whole number from 1 to {LONGEST} or two of them, such as (2, 4)"


class TextKernel(CountKernel, described=False):
    """Base of kernels of texts: inner products of weighted sparse counts of n-grams or words."""

    n: tuple[int, int]
    idf: bool
    sublinear: bool

    @abstractmethod
    def _counter(self) -> dict[str, object]:
        """Parameters of scikit-learn's `CountVectorizer`."""

    def _counted(self) -> Hashable:
        return tuple(sorted(self._counter().items()))

    def _count(self, cells: NDArray[Any]) -> tuple[Any, list[str]]:
        return counted(cells, **self._counter())

    def _vocabulary(self, terms: tuple[str, ...], n_rows: FloatArray, total: float) -> Vocabulary:
        if not self.idf:
            return Vocabulary(terms)
        every = 1.0 + total
        return Vocabulary(terms, np.log(every / (1.0 + n_rows)) + 1.0, float(np.log(every)) + 1.0)

    def _weighted(self, counts: csr_array, terms: list[str]) -> csr_array:
        weighted = counts.copy()
        if self.sublinear:
            weighted.data = 1.0 + np.log(weighted.data)
        learnt = self._numbers() if self.idf else None
        if learnt is not None and learnt.idf is not None:
            places = learnt.places(terms)
            weights = np.where(places >= 0, np.append(learnt.idf, 0.0)[places], learnt.unseen)
            weighted.data = weighted.data * weights[weighted.indices]
        return weighted

    def _said(self) -> list[str]:
        low, high = self.n
        return [f"n={low}" if low == high else f"n={low}-{high}"]

    @staticmethod
    def _written(first: Any) -> str:
        low, high = first
        return repr(low if low == high else first)


def counted(cells: NDArray[Any], **counter: Any) -> tuple[Any, list[str]]:
    """Counts of terms by scikit-learn's `CountVectorizer`, shape (n_rows, n_terms), and the terms, sorted."""
    from scipy import sparse
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(**counter, dtype=np.float64)
    try:
        found = sparse.csr_array(vectorizer.fit_transform(cells))
    except ValueError:
        # no text has any term
        return sparse.csr_array((len(cells), 0)), []
    return found, vectorizer.get_feature_names_out().tolist()


NGrams = Annotated[Any, Lengths()]


@dataclass(frozen=True, repr=False)
class CharNGrams(TextKernel):
    """The character n-gram kernel of texts: k(x, z) = sum_s c_s(x) c_s(z) over strings s of n characters.

    c_s(x) is the number of occurrences of s in x. With one length it is the spectrum kernel, with several the
    blended one. By default rows have length 1, so that k is the cosine of the angle between counts.

    Parameters
    ----------
    n : int or pair of int, default=(2, 4)
        Lengths of n-grams, the least and the most.
    within_words : bool, default=False
        Only n-grams inside words, which begin and end with a space.
    lowercase : bool, default=True
        Read capital letters as small ones.
    sublinear : bool, default=False
        1 + log(c) instead of counts c.
    idf : bool, default=False
        Counts times ``log((1 + n_rows) / (1 + rows with s)) + 1``, of the training rows: rare n-grams count more.
    normalize : bool, default=True
        Divide by the lengths of both rows, ``sqrt(k(x, x) k(z, z))``. A text without n-grams has similarity zero to
        all others.
    learnt : Vocabulary or None, default=None
        The vocabulary of training rows; set by `fitted`.

    Notes
    -----
    Put it on one column of texts, ``CharNGrams().on("note")``, or on a view of texts. Counts are those of
    scikit-learn's `CountVectorizer`, which treats several white spaces as one. They are stored as sparse arrays:
    O(total length of the texts) numbers. N-grams of new rows that no training row has enter their lengths, with the
    idf of n-grams in no row.

    References
    ----------
    C. Leslie, E. Eskin, W. S. Noble, The spectrum kernel: a string kernel for SVM protein classification, PSB 2002;
    H. Lodhi et al., Text classification using string kernels, JMLR 2, 2002.

    Examples
    --------
    >>> k = CharNGrams(n=2)
    >>> k({"text": ["banana", "bandana", "orange"]}).round(2)
    array([[1.  , 0.82, 0.3 ],
           [0.82, 1.  , 0.32],
           [0.3 , 0.32, 1.  ]])
    """

    n: NGrams = (2, 4)
    within_words: Switch = False
    lowercase: Switch = True
    sublinear: Switch = False
    idf: Switch = False
    normalize: Switch = True
    learnt: FittedPart = field(default=None, repr=False)

    unit: ClassVar[str] = "n-grams"

    def _counter(self) -> dict[str, object]:
        kind = "char_wb" if self.within_words else "char"
        return {"analyzer": kind, "ngram_range": self.n, "lowercase": self.lowercase}


@dataclass(frozen=True, repr=False)
class Tokens(TextKernel):
    r"""The bag-of-words kernel of texts: inner products of word counts with inverse document frequencies (tf-idf).

    k(x, z) = sum_t c_t(x) c_t(z) idf_t^2 over words t, by default divided by the lengths of both rows.

    Parameters
    ----------
    n : int or pair of int, default=(1, 1)
        Number of successive words in a term: (1, 2) counts single words and pairs.
    lowercase : bool, default=True
        Read capital letters as small ones.
    sublinear : bool, default=False
        1 + log(c) instead of counts c.
    idf : bool, default=True
        Counts times ``log((1 + n_rows) / (1 + rows with t)) + 1``, of the training rows.
    normalize : bool, default=True
        Rows of length 1: k is the cosine.
    pattern : str, default=r"(?u)\b\w\w+\b"
        Regular expression of a word; by default two letters or digits and more, as in scikit-learn.
    learnt : Vocabulary or None, default=None
        The vocabulary of training rows; set by `fitted`.

    Notes
    -----
    On training rows equal to a linear kernel of scikit-learn's `TfidfVectorizer`. That ignores unknown words of new
    rows; here they enter the lengths of these rows, with the idf of a word in no row.

    References
    ----------
    T. Joachims, Text categorization with support vector machines, ECML 1998.

    Examples
    --------
    >>> k = Tokens(idf=False).on("note")
    >>> import pandas as pd
    >>> k(pd.DataFrame({"note": ["mild pain", "no pain", "fever"], "age": [40, 50, 60]})).round(2)
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0. ],
           [0. , 0. , 1. ]])
    """

    n: NGrams = (1, 1)
    lowercase: Switch = True
    sublinear: Switch = False
    idf: Switch = True
    normalize: Switch = True
    pattern: Annotated[str, Text()] = r"(?u)\b\w\w+\b"
    learnt: FittedPart = field(default=None, repr=False)

    unit: ClassVar[str] = "words"
    aliases: ClassVar[tuple[str, ...]] = ("words",)

    def __post_init__(self) -> None:
        super().__post_init__()
        import re

        try:
            re.compile(self.pattern)
        except re.error as error:
            raise InputError(
                f"`pattern` of Tokens must be a regular expression, got {self.pattern!r}: {error}."
            ) from None

    def _counter(self) -> dict[str, object]:
        return {
            "analyzer": "word",
            "ngram_range": self.n,
            "lowercase": self.lowercase,
            "token_pattern": self.pattern,
        }

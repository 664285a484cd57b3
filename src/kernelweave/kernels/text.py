"""Kernels of texts: character n-grams and words, as sparse counts, with a vocabulary from training rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._parameters import Flag, ReadableSignature, Rule, Text, Unfit, Whole, check_fields, listed
from kernelweave._sparse import sq_norms, unit_rows
from kernelweave._types import FittedPart, Tree, csr_array
from kernelweave.kernels.base import FloatArray, Kernel
from kernelweave.kernels.learnt import Learnt, plain
from kernelweave.kernels.steps import Step
from kernelweave.kernels.training_rows import TrainingRows
from kernelweave.views import Cells, GramTable, SparseTable, Table

__all__ = ["CharNGrams", "Tokens", "Vocabulary"]

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


@dataclass(frozen=True, eq=False, repr=False)
class Vocabulary(Learnt):
    """The vocabulary of a text kernel: n-grams or words of training rows, and their weights.

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
        """Positions of terms, -1 for unknown ones."""
        return np.array([self._place.get(term, -1) for term in terms], dtype=np.intp)

    @cached_property
    def _place(self) -> dict[str, int]:
        return {term: j for j, term in enumerate(self.terms)}

    def to_value(self) -> Tree:
        """Plain values, from which it can be restored."""
        return {name: plain(value) for name, value in self.settings().items()}

    def __repr__(self) -> str:
        return f"<{len(self)} terms>"


def text_column(table: Table, reader: str, example: str) -> Cells:
    """The column of texts of a table; `reader` says who reads it, `example` how it is put on a column."""
    if isinstance(table, (GramTable, SparseTable)):
        kind = "a precomputed view" if isinstance(table, GramTable) else "sparse numbers"
        raise InputError(f"{reader} reads text, got {kind}. Put it on a column of texts: {example}.")
    cells = table.cells or (None,) * table.n_columns
    if table.n_columns != 1:
        raise InputError(
            f"{reader} reads one column of texts, got {table.n_columns} columns. Put it on one, {example}; several "
            "get a kernel each."
        )
    found = cells[0]
    if found is None or not found.are(str):
        what = "numbers or categories" if found is None else "other objects"
        raise InputError(
            f"{reader} reads text, but column {table.column_names[0]!r} holds {what}. Put it on a column of texts, "
            f"{example}, or make it one with frame.astype(str)."
        )
    return found


class TextKernel(Kernel, described=False):
    """Base of kernels of texts: inner products of weighted sparse counts."""

    n: tuple[int, int]
    learnt: Vocabulary | None
    idf: bool
    sublinear: bool
    normalize: bool

    statistic: ClassVar[str] = "dot"

    def __post_init__(self) -> None:
        check_fields(self, named=True)
        if isinstance(self.learnt, Mapping):
            object.__setattr__(self, "learnt", Vocabulary(**self.learnt))

    #: Name of the counted terms.
    unit: ClassVar[str]

    @abstractmethod
    def _counter(self) -> dict[str, object]:
        """Parameters of scikit-learn's `CountVectorizer`."""

    @property
    def is_fitted(self) -> bool:
        """Whether the terms of training rows are known."""
        return self.learnt is not None

    def _fit(self, rows: TrainingRows) -> Kernel:
        (features,), _ = rows.after(self.preparation)
        assert isinstance(features, TextFeatures)
        return features.kernel

    @property
    def preparation(self) -> tuple[Step, ...]:
        """Counts of terms."""
        return (TextFeatures(self),)

    def formula(self, xp, S, left, right):
        return S

    def counts(self, table: Table) -> tuple[csr_array, list[str]]:
        """Sparse counts of all terms of a column, shape (n_rows, n_terms), and the terms, sorted."""
        name = type(self).__name__
        return text_column(table, name, f"kernels.{name}().on('note')").counted(
            tuple(sorted(self._counter().items())), self._count
        )

    def _count(self, texts: NDArray[Any]) -> tuple[Any, list[str]]:
        from scipy import sparse
        from sklearn.feature_extraction.text import CountVectorizer

        vectorizer = CountVectorizer(**self._counter(), dtype=np.float64)
        try:
            found = sparse.csr_array(vectorizer.fit_transform(texts))
        except ValueError:
            # no text has any term
            return sparse.csr_array((len(texts), 0)), []
        return found, vectorizer.get_feature_names_out().tolist()

    def learn(self, table: Table, sample_weight: FloatArray | None) -> Vocabulary:
        """The terms of these rows, with weights as repetitions."""
        counts, terms = self.counts(table)
        weight = np.ones(counts.shape[0]) if sample_weight is None else sample_weight
        present = counts.copy()
        present.data[:] = 1.0
        rows = weight @ present
        used = np.flatnonzero(rows > 0)
        names = tuple(terms[j] for j in used)
        if not self.idf:
            return Vocabulary(names)
        total = 1.0 + float(weight.sum())
        return Vocabulary(names, np.log(total / (1.0 + rows[used])) + 1.0, float(np.log(total)) + 1.0)

    def weighted(self, table: Table) -> tuple[csr_array, list[str]]:
        """Weighted counts of all terms of these rows, of length 1 with `normalize`, and the terms."""
        counts, terms = self.counts(table)
        weighted = counts.copy()
        if self.sublinear:
            weighted.data = 1.0 + np.log(weighted.data)
        learnt = self._numbers() if self.idf else None
        if learnt is not None and learnt.idf is not None:
            places = learnt.places(terms)
            weights = np.where(places >= 0, np.append(learnt.idf, 0.0)[places], learnt.unseen)
            weighted.data = weighted.data * weights[weighted.indices]
        return unit_rows(weighted) if self.normalize else weighted, terms

    def _numbers(self) -> Vocabulary:
        if self.learnt is None:
            raise InputError(f"{self!r} learns its terms from training rows. Call fitted(X) first.")
        return self.learnt

    def placed(self, table: Table, vocabulary: Vocabulary) -> csr_array:
        """Weighted counts of the terms of a vocabulary; others enter the lengths of rows only."""
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
            f"{type(self).__name__} reads text, which has no columns to prepare. Leave `prepared` out."
        )

    def _short(self, nested: bool = False) -> str:
        low, high = self.n
        said = [f"n={low}" if low == high else f"n={low}-{high}"]
        if self.learnt is not None:
            said.append(f"{len(self.learnt)} {self.unit}")
        return f"{type(self).__name__}({', '.join(said)})"

    def __repr__(self) -> str:
        said = []
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if one.name == "n" or value != one.default:
                low = value[0] if one.name == "n" and value[0] == value[1] else value
                said.append(f"{one.name}={low!r}")
        return f"{type(self).__name__}({', '.join(said)})"


@dataclass(frozen=True)
class TextFeatures(Step):
    """The step from a column of texts to the sparse counts that a kernel compares."""

    kernel: TextKernel

    name: ClassVar[str] = "texts"
    word: ClassVar[str] = "counted"
    reads_text: ClassVar[bool] = True

    @property
    def is_fitted(self) -> bool:
        """Whether the terms of training rows are known."""
        return self.kernel.is_fitted

    def _fit(self, table: Table, sample_weight: FloatArray | None) -> Self:
        learnt = self.kernel.learn(table, sample_weight)
        return replace(self, kernel=replace(self.kernel, learnt=learnt))  # type: ignore[type-var]

    def apply(self, table: Table) -> Table:
        """The counts as a table."""
        return SparseTable.of_checked(self.kernel._features(table), None)


NGrams = Annotated[Any, Lengths()]
Switch = Annotated[bool, Flag()]


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
    aliases: ClassVar[tuple[str, ...]] = ("spectrum",)

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

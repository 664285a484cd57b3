"""Kernels of sequences against their definitions, and models with them.

Modules: `kernels/sequences`, `kernels/counts`.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

import kernelweave as kw
from kernelweave._checks import InputError
from kernelweave.kernels import CharNGrams, Gapped, Linear, Mismatch, Spectrum, parse, sequences
from kernelweave.persistence.states import from_state, to_state

#: What runs draw is looked at in other files.
pytestmark = pytest.mark.usefixtures("undrawn")

RNG = np.random.default_rng(3)
LETTERS = "ACG"
DNA = ["".join(RNG.choice(list(LETTERS), RNG.integers(0, 14))) for _ in range(30)]
FRAME = pd.DataFrame({"dna": DNA, "age": RNG.normal(size=30)})
Y = np.array([text.count("AC") - text.count("GG") for text in DNA], dtype=float)


def pieces(text, length):
    return [text[i : i + length] for i in range(len(text) - length + 1)]


def is_subsequence(term, piece):
    letters = iter(piece)
    return all(letter in letters for letter in term)


def by_hand(kernel, text, letters=LETTERS):
    """Counts over all strings of k letters of an alphabet, by the definition."""
    terms = ["".join(term) for term in product(letters, repeat=kernel.k)]
    if isinstance(kernel, Gapped):
        own = pieces(text, kernel.k + kernel.g)
        return np.array([sum(is_subsequence(term, piece) for piece in own) for term in terms], dtype=float)
    most = kernel.m if isinstance(kernel, Mismatch) else 0
    own = pieces(text, kernel.k)
    apart = [[sum(a != b for a, b in zip(term, piece, strict=True)) for piece in own] for term in terms]
    return np.array([sum(d <= most for d in row) for row in apart], dtype=float)


KERNELS = [
    Spectrum(1),
    Spectrum(3),
    Mismatch(3, 0),
    Mismatch(3, 1),
    Mismatch(3, 2),
    Gapped(2, 0),
    Gapped(2, 2),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("normalize", [False, True])
def test_values_are_those_of_the_definition(kernel, normalize):
    X, Z = [*DNA[:9], "", "AC"], DNA[5:25]
    kind, given = (
        type(kernel),
        {name: getattr(kernel, name) for name in ("k", "m", "g") if hasattr(kernel, name)},
    )
    kernel = kind(**given, normalize=normalize)
    A, B = (np.array([by_hand(kernel, text) for text in rows]) for rows in (X, Z))
    if normalize:
        A, B = (C / np.maximum(np.linalg.norm(C, axis=1, keepdims=True), 1e-300) for C in (A, B))
    # the alphabet is that of the rows on which the kernel is fitted
    assert set("".join(Z)) == set(LETTERS)
    for fitted in (kernel.fitted({"t": Z}), kernel.fitted({"t": [LETTERS, "AAAA"]})):
        np.testing.assert_allclose(fitted({"t": X}, {"t": Z}), A @ B.T, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(fitted.diag({"t": X}), np.square(A).sum(axis=1), rtol=1e-12, atol=1e-12)
    K = kernel({"t": Z})
    assert (K == K.T).all()
    np.testing.assert_allclose(K, B @ B.T, rtol=1e-12, atol=1e-12)


def test_the_spectrum_kernel_is_that_of_character_n_grams():
    np.testing.assert_array_equal(Spectrum(3)({"t": DNA}), CharNGrams(3, lowercase=False)({"t": DNA}))
    # case and white space are letters
    assert Spectrum(2, normalize=False)({"t": ["ab  c"]}, {"t": ["AB", "  ", "ab"]}).tolist() == [
        [0.0, 1.0, 1.0]
    ]


def test_letters_beyond_the_alphabet_match_themselves():
    kernel = Mismatch(2, 1, alphabet="CA", normalize=False)
    assert kernel.alphabet == "AC"
    # NA is close to NA, NC, AA and CA, and AN to AN, AA, AC and CN
    assert kernel({"t": ["NA"]}, {"t": ["NA", "AN", "GG"]}).tolist() == [[4.0, 1.0, 0.0]]


def test_new_pieces_lengthen_a_row():
    kernel = Spectrum(2).fitted({"t": ["ACA", "ACC"]})
    assert kernel.learnt.terms == ("AC", "CA", "CC")
    features = kernel.features({"t": ["ACG", "GGG", "AC"]}).toarray()
    np.testing.assert_allclose(features, [[np.sqrt(0.5), 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert Spectrum(2).fitted({"t": ["", "A"]})({"t": ["AC"]}, {"t": ["", "A"]}).tolist() == [[0.0, 0.0]]


def test_text_labels_and_plain_values():
    for kernel in KERNELS:
        assert parse(repr(kernel)) == kernel == from_state(to_state(kernel))
    assert parse("mismatch(k=5, m=2, alphabet='ACGT', normalize=False).on('dna')").label == (
        "Mismatch(k=5, m=2) on dna"
    )
    assert Spectrum(3).fitted({"t": ["ACGT"]}).label == "Spectrum(k=3, 2 k-mers) on all"
    fitted = Mismatch(2).fitted({"t": DNA})
    again = from_state(to_state(fitted))
    np.testing.assert_array_equal(again({"t": DNA[:4]}, {"t": DNA}), fitted({"t": DNA[:4]}, {"t": DNA}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Spectrum(0), "`k` of Spectrum must be"),
        (lambda: Mismatch(3, 3), "`m` of Mismatch must be less than k = 3, got 3"),
        (lambda: Gapped(3, -1), "`g` of Gapped must be"),
        (lambda: Spectrum().prepared("standardize"), "Spectrum reads text, which has no columns to prepare"),
        (lambda: Spectrum()(np.ones((3, 1))), "Spectrum reads text, but column 'x0' holds numbers"),
    ],
)
def test_errors(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_too_many_terms_are_refused(monkeypatch):
    monkeypatch.setattr(sequences, "MOST_TERMS", 100)
    with pytest.raises(
        InputError, match=r"counts \d+ different pieces for up to 19 terms each, more than 100 in all"
    ):
        Mismatch(3, 2)({"t": DNA})


BANK = [Spectrum(2).on("dna"), Mismatch(3, 1).on("dna"), Gapped(2, 1).on("dna"), Linear().on("age")]


def test_models(tmp_path):
    model = kw.MKLRegressorCV(BANK, n_alphas=5, cv=3).fit(FRAME, Y)
    assert model.score(FRAME, Y) > 0.8
    assert model.rel_gap_ < 1e-6
    again = kw.load(kw.save(model, tmp_path / "m"))
    np.testing.assert_allclose(again.predict(FRAME), model.predict(FRAME), rtol=1e-10)
    with pytest.raises(InputError, match="no ONNX form"):
        kw.to_onnx(model, tmp_path / "m.onnx")
    views = {"dna": DNA, "age": FRAME[["age"]]}
    both = kw.MKLRegressor([Spectrum(2), Linear()], alpha=0.1, normalize="cosine").fit(views, Y)
    assert both.kernel_names_[1] == "age: Linear"
    lacking = FRAME.assign(dna=[None, *DNA[1:]])
    filled = kw.MKLRegressor(BANK, alpha=0.1, missing="impute").fit(lacking, Y)
    assert np.isfinite(filled.predict(lacking)).all()


def test_pieces_are_counted_once_for_all_folds(monkeypatch):
    counted, own = [], Spectrum._count
    monkeypatch.setattr(
        Spectrum, "_count", lambda self, cells: counted.append(len(cells)) or own(self, cells)
    )
    kw.MKLRegressorCV([Spectrum(2).on("dna"), Spectrum(2, normalize=False).on("dna")], n_alphas=3, cv=3).fit(
        FRAME, Y
    )
    assert counted == [30]


def test_command_line(tmp_path):
    pytest.importorskip("cyclopts")
    pytest.importorskip("jinja2")
    from kernelweave_app.cli import main
    from kernelweave_app.runs.kernels_of import kernel_names

    assert {"spectrum", "mismatch", "gapped"} <= set(kernel_names())
    table, out = tmp_path / "t.csv", tmp_path / "run"
    FRAME.assign(dna=[text or "A" for text in DNA], y=Y + 0.01 * FRAME["age"]).to_csv(table, index=False)
    kernels = "spectrum(k=2).on('dna'); mismatch(k=3, m=1).on('dna'); linear.on('age')"
    call = ["fit", str(table), "--target", "y", "--out", str(out), "--kernels", kernels]
    assert main([*call, "--alphas", "2", "--cv", "2"]) == 0
    assert kw.load(out / "model.skops").kernel_names_[1].startswith("Mismatch(k=3, m=1, ")

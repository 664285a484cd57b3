"""Fingerprints and descriptors of molecules, and the bank of their kernels.

Modules: `kernels/molecules`.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

import kernelweave as kw
from kernelweave._checks import InputError
from kernelweave.kernels import RBF, Fingerprints, Linear, Tanimoto, molecules, parse
from kernelweave.kernels.molecules import FORMS
from kernelweave.persistence.states import from_state, to_state

SMILES = [
    *("C", "CC", "CCC", "CCCC", "CCO", "CCCO", "CC(C)O", "CCN", "CCCN", "c1ccccc1", "Cc1ccccc1", "Oc1ccccc1"),
    *("Nc1ccccc1", "CC(=O)O", "CCC(=O)O", "CC(=O)C", "CCOCC", "C1CCCCC1", "ClCCl", "c1ccncc1", "CC#N", "CCS"),
]
FRAME = pd.DataFrame({"smiles": SMILES, "age": np.arange(22.0)})
Y = np.array([text.upper().count("C") - 2.0 * text.count("O") for text in SMILES])


def test_without_rdkit_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(InputError, match=r"Fingerprints needs RDKit: pip install 'kernelweave\[chemistry\]'"):
        kw.MKLRegressor([Tanimoto().prepared("fingerprints").on("smiles")], alpha=1.0).fit(FRAME, Y)
    with pytest.raises(InputError, match="Descriptors needs RDKit"):
        kw.MKLRegressor([Linear().prepared("descriptors").on("smiles")], alpha=1.0).fit(FRAME, Y)


def test_text_and_plain_values():
    for kernel in kw.banks.molecules("smiles"):
        assert parse(repr(kernel)) == kernel
        assert from_state(to_state(kernel)) == kernel
    written = "tanimoto.prepared(Fingerprints(form='torsions', counts=False)).on('smiles')"
    assert parse(written) == Tanimoto().prepared(Fingerprints("torsions", counts=False)).on("smiles")
    assert len(kw.banks.molecules()) == len(kw.banks.molecules("smiles")) == 8
    with pytest.raises(InputError, match="`form` of Fingerprints must be"):
        Fingerprints("ecfp4")


def test_columns_that_are_no_molecules():
    with pytest.raises(InputError, match="Fingerprints reads text, but column 'age' holds numbers"):
        kw.MKLRegressor([Tanimoto().prepared("fingerprints").on("age")], alpha=1.0).fit(FRAME, Y)
    with pytest.raises(InputError, match="Fingerprints reads one column of texts, got 2 columns"):
        kw.MKLRegressor([Tanimoto().prepared("fingerprints")], alpha=1.0).fit(FRAME, Y)
    with pytest.raises(InputError, match="reads one column, whose cells are no numbers"):
        kw.MKLRegressor(kw.banks.molecules("smiles")[:1], alpha=1.0, missing="skip").fit(FRAME, Y)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("counts", [True, False])
def test_values_are_those_of_rdkit(form, counts):
    pytest.importorskip("rdkit", reason="fingerprints are computed by RDKit")
    from rdkit import Chem, DataStructs
    from rdkit.Chem import rdFingerprintGenerator as generators
    from rdkit.Chem import rdMolDescriptors

    made = {
        "morgan": lambda: generators.GetMorganGenerator(radius=2, fpSize=4096),
        "path": lambda: generators.GetRDKitFPGenerator(fpSize=4096),
        "pairs": lambda: generators.GetAtomPairGenerator(fpSize=4096),
        "torsions": lambda: generators.GetTopologicalTorsionGenerator(fpSize=4096),
    }
    found = [Chem.MolFromSmiles(text) for text in SMILES]
    if form == "maccs":
        vectors = [rdMolDescriptors.GetMACCSKeysFingerprint(one) for one in found]
    elif counts:
        generator = made[form]()
        vectors = [generator.GetCountFingerprint(one) for one in found]
    else:
        # the bits of RDKit with count simulation are others
        generator = made[form]()
        vectors = []
        for one in found:
            vectors.append(DataStructs.ExplicitBitVect(4096))
            vectors[-1].SetBitsFromList(list(generator.GetCountFingerprint(one).GetNonzeroElements()))
    wanted = np.array([[DataStructs.TanimotoSimilarity(a, b) for b in vectors] for a in vectors])
    empty = np.array(
        [
            not list(v.GetNonzeroElements() if hasattr(v, "GetNonzeroElements") else v.GetOnBits())
            for v in vectors
        ]
    )
    # molecules without any part are equal here, and of similarity 0 or 1 in RDKit
    wanted[np.ix_(empty, empty)] = 1.0
    K = Tanimoto().prepared(Fingerprints(form, counts))({"smiles": SMILES})
    np.testing.assert_allclose(K, wanted, rtol=1e-12)
    assert np.linalg.eigvalsh(K).min() > -1e-12


def test_models(tmp_path):
    pytest.importorskip("rdkit", reason="fingerprints are computed by RDKit")
    model = kw.MKLRegressorCV(kw.banks.molecules("smiles"), n_alphas=4, cv=3).fit(FRAME, Y)
    assert model.score(FRAME, Y) > 0.9
    again = kw.load(kw.save(model, tmp_path / "m"))
    np.testing.assert_array_equal(again.predict(FRAME), model.predict(FRAME))
    with pytest.raises(InputError, match="no ONNX form"):
        kw.to_onnx(model, tmp_path / "m.onnx")
    views = {"molecule": SMILES, "age": FRAME[["age"]]}
    both = kw.MKLRegressor([*kw.banks.molecules(), Linear()], alpha=0.1).fit(views, Y)
    assert len(both.kernel_names_) == 9
    assert both.kernel_names_[-1] == "age: Linear"
    lacking = FRAME.assign(smiles=[None, *SMILES[1:]])
    filled = kw.MKLRegressor(kw.banks.molecules("smiles"), alpha=0.1, missing="impute").fit(lacking, Y)
    assert np.isfinite(filled.predict(lacking)).all()


def test_molecules_are_read_once_for_every_fingerprint(monkeypatch):
    pytest.importorskip("rdkit", reason="fingerprints are computed by RDKit")
    read, own = [], molecules._molecules
    monkeypatch.setattr(
        molecules, "_molecules", lambda texts, words: read.append(len(texts)) or own(texts, words)
    )
    bank = [
        *(Tanimoto().prepared(Fingerprints(form)).on("smiles") for form in FORMS[:2]),
        *(
            RBF(("median", factor)).prepared("descriptors", "standardize").on("smiles")
            for factor in (0.5, 1.0, 2.0)
        ),
    ]
    kw.MKLRegressorCV(bank, n_alphas=3, cv=3).fit(FRAME, Y)
    # two fingerprints and the descriptors, whatever the number of kernels and folds
    assert read == [22, 22, 22]


def test_molecules_that_cannot_be_read_are_named():
    pytest.importorskip("rdkit", reason="fingerprints are computed by RDKit")
    wrong = FRAME.assign(smiles=[*SMILES[:3], "C1CC", *SMILES[4:]])
    with pytest.raises(
        InputError, match=r"cannot read the molecules of these rows, counted from 0: 3 \('C1CC'\)"
    ):
        kw.MKLRegressor(kw.banks.molecules("smiles"), alpha=1.0).fit(wrong, Y)


@pytest.mark.usefixtures("undrawn")
def test_command_line(tmp_path):
    pytest.importorskip("rdkit", reason="fingerprints are computed by RDKit")
    pytest.importorskip("cyclopts")
    pytest.importorskip("jinja2")
    from kernelweave_app.cli import main

    table, out = tmp_path / "t.csv", tmp_path / "run"
    FRAME.assign(y=Y + 0.01 * FRAME["age"]).to_csv(table, index=False)
    described = "rbf('median').prepared('descriptors', 'standardize').on('smiles')"
    kernels = f"tanimoto.prepared(Fingerprints(form='pairs')).on('smiles'); {described}"
    assert (
        main(
            [
                "fit",
                str(table),
                "--target",
                "y",
                "--out",
                str(out),
                "--kernels",
                kernels,
                "--alphas",
                "2",
                "--cv",
                "2",
            ]
        )
        == 0
    )
    model = kw.load(out / "model.skops")
    assert model.kernel_names_[0] == "pairs fingerprints, Tanimoto on smiles"

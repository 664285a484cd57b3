"""Molecules: a column of SMILES as fingerprints and descriptors, computed by RDKit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._parameters import Flag, OneOf, Whole, check_fields
from kernelweave._sparse import is_sparse
from kernelweave._types import csr_array
from kernelweave.kernels.counts import one_column
from kernelweave.kernels.steps import Step, step
from kernelweave.views import SparseTable, Table

__all__ = ["Descriptors", "Fingerprints"]

FORMS = ("morgan", "path", "pairs", "torsions", "maccs")
#: Molecules that are named in an error.
MOST_NAMED = 5


class OfMolecules(Step):
    """Base of steps from a column of SMILES to columns of numbers, computed once for all rows, kernels and folds."""

    reads_cells: ClassVar[type | None] = str

    def apply(self, table: Table) -> Table:
        name = type(self).__name__
        cells = one_column(table, name, f"kernels.Tanimoto().prepared(kernels.{name}()).on('smiles')")
        read = f"{name} needs RDKit: pip install 'kernelweave[chemistry]'."
        # rows of a column share what is computed for all of it
        values = cells.counted(self, lambda texts: (self._of(_molecules(texts, read)), []))[0]
        return (SparseTable if is_sparse(values) else Table).of_checked(values, None)

    @abstractmethod
    def _of(self, molecules: list[Any]) -> Any:
        """Numbers of all molecules, a row for each."""


@step
@dataclass(frozen=True, eq=False, repr=False)
class Fingerprints(OfMolecules):
    """A column of SMILES as counts of parts of the molecules, for :class:`Tanimoto`; computed by RDKit.

    Parameters
    ----------
    form : {"morgan", "path", "pairs", "torsions", "maccs"}, default="morgan"
        What is counted: surroundings of atoms up to `radius` bonds ("morgan", ECFP4 with radius 2), paths of up to
        seven bonds, pairs of atoms with their distance, sequences of four atoms, or the 166 MACCS keys, 0 or 1 each.
    counts : bool, default=True
        False: whether the part is there, 0 or 1.
    radius : int, default=2
        Radius of "morgan" fingerprints.
    size : int, default=4096
        Number of columns, over which parts are spread by a hash; "maccs" has 167.

    Notes
    -----
    Molecules that RDKit cannot read are an error that names their rows. A missing cell is a molecule without atoms.

    References
    ----------
    D. Rogers and M. Hahn, Extended-connectivity fingerprints, J. Chem. Inf. Model. 50, 2010.

    Examples
    --------
    >>> from kernelweave.kernels import Tanimoto
    >>> Tanimoto().prepared(Fingerprints("torsions")).on("smiles").label
    'torsions fingerprints, Tanimoto on smiles'
    """

    form: Annotated[str, OneOf(*FORMS)] = "morgan"
    counts: Annotated[bool, Flag()] = True
    radius: Annotated[int, Whole(0)] = 2
    size: Annotated[int, Whole(16)] = 4096

    name: ClassVar[str] = "fingerprints"

    def __post_init__(self) -> None:
        check_fields(self, named=True)

    @property
    def word(self) -> str:  # type: ignore[override]
        """Its word in labels of kernels."""
        return f"{self.form} fingerprints,"

    def _of(self, molecules: list[Any]) -> csr_array:
        from scipy import sparse

        parts_of = self._parts()
        found = [parts_of(molecule) for molecule in molecules]
        columns = np.array([column for one in found for column in sorted(one)], dtype=np.intp)
        counts = np.array([one[column] for one in found for column in sorted(one)], dtype=np.float64)
        ends = np.concatenate([[0], np.cumsum([len(one) for one in found])])
        values = counts if self.counts else np.ones_like(counts)
        size = 167 if self.form == "maccs" else self.size
        return sparse.csr_array((values, columns, ends), shape=(len(found), size))

    def _parts(self) -> Callable[[Any], dict[int, int]]:
        """The function from a molecule to the counts of its parts by column."""
        from rdkit.Chem import rdFingerprintGenerator as generators
        from rdkit.Chem import rdMolDescriptors

        if self.form == "maccs":
            return lambda molecule: dict.fromkeys(
                rdMolDescriptors.GetMACCSKeysFingerprint(molecule).GetOnBits(), 1
            )
        makers = {
            "morgan": lambda: generators.GetMorganGenerator(radius=self.radius, fpSize=self.size),
            "path": lambda: generators.GetRDKitFPGenerator(fpSize=self.size),
            "pairs": lambda: generators.GetAtomPairGenerator(fpSize=self.size),
            "torsions": lambda: generators.GetTopologicalTorsionGenerator(fpSize=self.size),
        }
        generator = makers[self.form]()
        return lambda molecule: generator.GetCountFingerprint(molecule).GetNonzeroElements()


@step
@dataclass(frozen=True, eq=False, repr=False)
class Descriptors(OfMolecules):
    """A column of SMILES as 100 numbers of the molecules: size, polarity, solubility, rings, parts of the surface.

    Lipophilicity, molar refractivity, polar and whole surface, weight, shape (kappa) and connectivity (chi) indices,
    the surface by charge, lipophilicity and refractivity, and the 42 molecular quantum numbers; computed by RDKit. They
    have different units, so standardise them: ``RBF("median").prepared(Descriptors(), "standardize").on("smiles")``.

    Notes
    -----
    Numbers that RDKit cannot compute are 0. Molecules that it cannot read are an error that names their rows.
    """

    name: ClassVar[str] = "descriptors"
    word: ClassVar[str] = "descriptors"

    def _of(self, molecules: list[Any]) -> NDArray[np.float64]:
        from rdkit.Chem import rdMolDescriptors as of

        single = [
            *(
                of.CalcTPSA,
                of.CalcLabuteASA,
                of.CalcExactMolWt,
                of.CalcFractionCSP3,
                of.CalcNumRotatableBonds,
            ),
            *(of.CalcNumHBD, of.CalcNumHBA, of.CalcNumAromaticRings, of.CalcNumHeterocycles),
            *(of.CalcKappa1, of.CalcKappa2, of.CalcKappa3, of.CalcHallKierAlpha, of.CalcPhi),
            *(of.CalcChi0v, of.CalcChi1v, of.CalcChi2v, of.CalcChi3v, of.CalcChi0n, of.CalcChi1n),
        ]
        several = [of.CalcCrippenDescriptors, of.PEOE_VSA_, of.SlogP_VSA_, of.SMR_VSA_, of.MQNs_]
        rows = [
            [*(function(one) for function in single), *(value for many in several for value in many(one))]
            for one in molecules
        ]
        values = np.array(rows, dtype=np.float64)
        return np.where(np.isfinite(values), values, 0.0)


def _molecules(texts: NDArray[np.object_], read: str) -> list[Any]:
    """Molecules of SMILES."""
    try:
        from rdkit import Chem, rdBase
    except ImportError as error:
        raise InputError(read) from error
    with rdBase.BlockLogs():
        found = [Chem.MolFromSmiles(str(text)) for text in texts]
    wrong = [i for i, molecule in enumerate(found) if molecule is None]
    if wrong:
        named = ", ".join(f"{i} ({str(texts[i])!r:.40})" for i in wrong[:MOST_NAMED])
        more = f" and {len(wrong) - MOST_NAMED} more" if len(wrong) > MOST_NAMED else ""
        raise InputError(
            f"RDKit cannot read the molecules of these rows, counted from 0: {named}{more}. Correct their SMILES, or "
            "leave the rows out."
        )
    return found

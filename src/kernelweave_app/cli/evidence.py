"""The command `evidence`; what it needs is imported inside it."""

from __future__ import annotations

from kernelweave_app.cli.arguments import Names


def evidence(
    run: str,
    table: str,
    /,
    *,
    what: Names = None,
    permutations: int = 99,
    fixed: bool = False,
    divisions: int = 10,
    halves: int = 50,
    sizes: int = 5,
    width: str = "single",
    jobs: int = 1,
    seed: int = 0,
) -> int:
    """How sure the answers of a run are: permutations, fits without a source, stability, learning curve, baselines.

    Computed on the table of the run with its settings, and added to its report, which begins with the answers in
    sentences. Figures in the width of a column (PDF, SVG) and tables (CSV, LaTeX) are written to its folders
    evidence-figures and evidence-tables. Ctrl-C keeps what is done.

    Example: kernelweave evidence run patients.csv --permutations 199 --width double

    Parameters
    ----------
    run
        Folder of a run of the command fit.
    table
        The table from which it was learnt.
    what
        permutation, sources, omission, stability, learning-curve, baselines; default all that the run can have.
    permutations
        Permutations of the targets, each a whole fit.
    fixed
        Do not fit again for permutations: permute only the targets of held-out rows.
    divisions
        Random divisions into training and held-out rows, on each of which the model is fitted without every source.
    halves
        Random halves of the training rows for the stability of weights.
    sizes
        Numbers of training rows of the learning curve.
    width
        Of figures: single (85 mm), double (174 mm), or millimetres.
    jobs
        Fits at the same time; -1 for one on each core.
    seed
        Every command takes it; here that of the run is used.
    """
    from kernelweave_app.cli.evidence_steps import run_evidence

    counts = {
        "permutation": permutations,
        "omission": divisions,
        "stability": halves,
        "learning curve": sizes,
    }
    return run_evidence(run, table, what=what, counts=counts, fixed=fixed, jobs=jobs, width=width)

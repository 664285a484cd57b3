"""Commands on fitted models. Heavy imports happen inside them, so that ``--help`` is quick."""

from __future__ import annotations

from kernelweave_app.cli.arguments import Names

__all__ = ["evaluate", "export", "predict"]


def predict(
    model: str,
    table: str,
    /,
    *,
    out: str,
    join: str = "",
    key: str = "",
    view: Names = None,
    gram: Names = None,
    std: bool = False,
    seed: int = 0,
) -> None:
    """Predict the rows of a table, or of several, with a fitted model.

    Example: kernelweave predict run new.csv --out predictions.csv

    Parameters
    ----------
    model
        Folder of a run, or a .skops file.
    table
        CSV, TSV (also .gz) or Parquet with the columns of the model.
    out
        CSV file to write.
    join
        Further tables, separated by commas, where the model was learnt from several: in the same order, or with the
        same names.
    key
        Column that names the rows; default that of the run.
    view
        Sparse views of the model, such as words=new.npz.
    gram
        Precomputed kernels of the model, such as grams.npz or similarity=new.npy: a row for each row of the table, a
        column for each training row, or for each row of the matrix of the fit.
    std
        Also write posterior standard deviations (regression).
    seed
        Every command takes it; here no random numbers are drawn.
    """
    from kernelweave_app.cli.runs import run_predict

    run_predict(model, table, out, join=join, key=key, std=std, view=view, gram=gram)


def evaluate(
    model: str,
    table: str,
    /,
    *,
    target: str,
    out: str = "",
    join: str = "",
    key: str = "",
    view: Names = None,
    gram: Names = None,
    seed: int = 0,
) -> None:
    """Score a fitted model on a table with known targets.

    Example: kernelweave evaluate run new.csv --target outcome

    Parameters
    ----------
    model
        Folder of a run, or a .skops file.
    table
        CSV, TSV (also .gz) or Parquet.
    target
        Column with the truth; for a model of several targets their names with commas between them, in any order, or as
        many other columns in the order of the model.
    out
        CSV file for the predictions beside the truth.
    join
        Further tables, as for predict.
    key
        Column that names the rows; default that of the run.
    view
        Sparse views of the model, as for predict.
    gram
        Precomputed kernels, as for predict.
    seed
        Every command takes it; here no random numbers are drawn.
    """
    from kernelweave_app.cli.runs import run_evaluate

    run_evaluate(model, table, target, out, join=join, key=key, view=view, gram=gram)


def export(model: str, /, *, out: str, single: bool = False, seed: int = 0) -> None:
    """Write a fitted model as an ONNX graph, for predictions without Python.

    Example: kernelweave export run --out model.onnx

    Parameters
    ----------
    model
        Folder of a run, or a .skops file.
    out
        ONNX file to write.
    single
        Read numbers in single precision; the graph computes in double precision all the same.
    seed
        Every command takes it; here no random numbers are drawn.
    """
    from kernelweave_app.cli.runs import run_export

    run_export(model, out, single=single)

"""The command `path` on tables.

Modules: `cli/paths`.
"""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("cyclopts")
pytest.importorskip("jinja2")

from kernelweave_app.cli import main

#: Of the many runs here few are looked at: those with the mark `drawn`.
pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.mark.drawn
def test_path_writes_a_table_and_pictures(wine, diabetes, tmp_path):
    out = tmp_path / "path"
    drop = ["--drop", "weight,clinic"]
    assert main(["path", str(diabetes), "--target", "target", "--out", str(out), "--alphas", "7", *drop]) == 0
    table = pd.read_csv(out / "path.csv")
    assert len(table) == 7
    assert (np.diff(table["alpha"]) < 0).all()
    head = ["alpha", "df", "df_total", "n_kernels", "gcv", "aic", "bic", "cp"]
    assert list(table.columns[:8]) == head
    np.testing.assert_allclose(table.iloc[:, 8:].sum(axis=1), 1.0)
    np.testing.assert_array_equal(table["n_kernels"], (table.iloc[:, 8:] > 0).sum(axis=1))
    # the definition, with the noise of the weakest regularisation
    free = table["df_total"]
    rss = table["gcv"] * (120 - free) ** 2 / 120
    noise = rss.iloc[-1] / (120 - free.iloc[-1])
    np.testing.assert_allclose(table["cp"], rss / noise - 120 + 2 * free, rtol=1e-9)
    assert (free >= table["df"] - 1e-9).all()
    assert (free > table["df"] + 0.1).any()
    assert (out / "path.svg").read_text().count("<svg") == 1
    assert (
        main(["path", str(wine), "--target", "target", "--out", str(tmp_path / "classes"), "--alphas", "4"])
        == 0
    )
    assert len(list((tmp_path / "classes").glob("path-*.svg"))) == 3


def test_ctrl_c_during_a_path_keeps_and_says_what_is_done(diabetes, wine, tmp_path, capsys, monkeypatch):
    from kernelweave.mkl import solve as solver

    plain, calls = solver.newton_result, []

    def interrupted(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 8:  # the first sets up at infinity
            raise KeyboardInterrupt
        return plain(*arguments, **options)

    monkeypatch.setattr(solver, "newton_result", interrupted)
    arguments = ["path", str(diabetes), "--target", "target", "--out", str(tmp_path / "p"), "--alphas", "20"]
    assert main(arguments) == 0
    assert "Interrupted: 6 of 20 regularisation parameters are done and written." in capsys.readouterr().out
    # in the second of three classes
    calls.clear()
    calls.append(())
    arguments = ["path", str(wine), "--target", "target", "--out", str(tmp_path / "c"), "--alphas", "2"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "Interrupted: 3 of 6 regularisation parameters are done and written." in said, said
    assert "path.csv and path-barbera.svg, path-barolo.svg" in said
    assert len(pd.read_csv(tmp_path / "p" / "path.csv")) == 6


def test_a_path_of_a_learner_with_a_C(wine, tmp_path, capsys):
    out = tmp_path / "path"
    given = ["--target", "target", "--kernels", "linear; rbf(gamma=0.1)", "--out", str(out)]
    assert main(["path", str(wine), *given, "--method", "uniform", "--cs", "4,1"]) == 0
    table = pd.read_csv(out / "path.csv")
    assert list(table.columns[:3]) == ["class", "C", "alpha"]
    np.testing.assert_allclose(table["C"], [1.0, 4.0] * 3)
    np.testing.assert_allclose(table["alpha"], 1.0 / table["C"])
    assert "C from 1 to 4" in capsys.readouterr().out


def test_a_path_of_the_default_learner_is_one_of_alphas_without_a_ridge(diabetes, tmp_path, monkeypatch):
    """The learner that a plain fit takes; a ridge of its own is chosen by folds, which a path has not."""
    from kernelweave_app import runs

    plain, made = runs.fitting.make_learner, []
    monkeypatch.setattr(runs.fitting, "make_learner", lambda spec: made.append(plain(spec)) or made[-1])
    drop = "weight,clinic,age,sex,s1,s2,s3,s4,s6"
    given = ["path", str(diabetes), "--target", "target", "--drop", drop]
    assert main([*given, "--out", str(tmp_path / "p"), "--spec", str(settings_of(tmp_path))]) == 0
    assert (type(made[0]).__name__, made[0].relax, made[0].tol) == ("RLS2", None, 1e-5)
    assert len(pd.read_csv(tmp_path / "p" / "path.csv")) == 3
    assert main([*given, "--out", str(tmp_path / "q"), "--method", "rls2", "--relax", "auto"]) == 2


def settings_of(folder):
    path = folder / "s.toml"
    path.write_text('alphas = "0.1,1,10"\n[learner_params]\ntol = 1e-5\n')
    return path


def test_layers_of_a_path_are_counted_from_the_kernels_of_the_table(wine, tmp_path):
    """The first layer has the columns without a number."""
    out = tmp_path / "path"
    given = ["--target", "target", "--kernels", "linear; rbf(gamma=0.1)", "--method", "deep-uniform"]
    assert main(["path", str(wine), *given, "--cs", "1,4", "--n-layers", "3", "--out", str(out)]) == 0
    table = pd.read_csv(out / "path.csv")
    upper = [name.split(":")[0] for name in table if name.startswith("layer")]
    assert upper == ["layer 2"] * 4 + ["layer 3"] * 4
    for layer in set(upper):
        np.testing.assert_allclose(table.filter(like=layer).sum(axis=1), 1.0)

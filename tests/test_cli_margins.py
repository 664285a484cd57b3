"""The command `margins`.

Modules: `cli/paths`, `cli/rows`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import kernelweave as kw
from kernelweave_app.cli import main


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    (tmp_path / "rows").mkdir()
    for k in range(2):
        X = rng.normal(size=(200, 6)) * [1, 1, 5, 5, 1, 1]
        y = (X[:, 0] - X[:, 5] + 0.5 * rng.normal(size=200) > 0).astype(int)
        table = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)]).assign(y=y)
        table.to_csv(tmp_path / "rows" / f"{k}.csv", index=False)
    return tmp_path


@pytest.mark.full
def test_a_path_of_c_with_folds(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tables / "out"
    options = ["--target", "y", "--groups", "0,2,4,6", "--loss", "logistic", "--folds", "3", "--points", "4"]
    options += ["--tol", "1e-6"]
    assert main(["margins", str(tables / "rows"), *options, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "400 rows, 6 features in 3 blocks" in said
    path = pd.read_csv(out / "path.csv")
    assert len(path) == 4
    assert (path["rel_gap"] <= 1e-6).all()
    assert path["accuracy"].max() > 0.85
    assert path["C"].iloc[0] == pytest.approx(0.1 / 400)
    # the same by hand
    table = pd.concat(pd.read_csv(tables / "rows" / f"{k}.csv") for k in range(2))
    Z, y = table.to_numpy()[:, :6], np.where(table["y"] > 0, 1.0, -1.0)
    scale = 1.0 / np.add.reduceat(np.square(Z).mean(axis=0), [0, 2, 4])
    stack = kw.FeatureStack(Z, [0, 2, 4, 6])
    held = kw.solvers.svm_mkl_path(stack, y, path["C"], loss="logistic", scale=scale, tol=1e-6)
    coefficients = pd.read_csv(out / "coefficients.csv")
    found = coefficients[[f"x{j}" for j in range(6)]].to_numpy()
    # 4e-16 of the largest one was seen
    assert np.allclose(found, held.feature_coef, rtol=0.0, atol=1e-6 * np.abs(held.feature_coef).max())
    assert (out / "path.svg").exists()


def test_lists_are_given_with_spaces_or_commas(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, out = str(tables / "rows"), tables / "out"
    shared = ["--target", "y", "--folds", "0", "--overwrite", "--out", str(out)]
    found = []
    for cs, columns in (("0.01,0.1", "x0,x5"), ("0.01 0.1", "x0 x5")):
        assert main(["margins", rows, *shared, "--cs", *cs.split(), "--columns", *columns.split()]) == 0
        found.append((out / "coefficients.csv").read_text())
    assert found[0] == found[1]
    assert found[0].startswith("C,intercept,x0,x5\n0.01,")
    capsys.readouterr()
    assert main(["margins", rows, *shared, "--cs", "0.1,many"]) == 2
    assert "--cs must be numbers, got 0.1,many." in capsys.readouterr().err
    assert main(["statistics", rows, "--target", 'y,"x0"', "--out", str(tables / "all.npz")]) == 0
    statistics = kw.rows.BlockStatistics.load(tables / "all.npz")
    assert statistics.n_outputs == 2
    assert statistics.n_features == 5


def test_the_smallest_c_is_a_share_of_the_weights(tables: Path) -> None:
    file, out = tables / "rows" / "1.csv", tables / "out"
    (tables / "rows" / "0.csv").unlink()
    pd.read_csv(file).assign(w=np.arange(200) % 3 + 0.5).to_csv(file, index=False)
    options = ["--target", "y", "--weight", "w", "--loss", "logistic", "--folds", "0", "--points", "1"]
    assert main(["margins", str(file), *options, "--out", str(out)]) == 0
    total = 67 * 0.5 + 67 * 1.5 + 66 * 2.5
    assert pd.read_csv(out / "path.csv")["C"].tolist() == pytest.approx([0.1 / total])


def test_columns_are_left_out_of_a_path(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--target", "y", "--loss", "logistic", "--folds", "0", "--points", "2"]
    drop = ["--drop", "x1,x4", "--out", str(tables / "a")]
    assert main(["margins", str(tables / "rows"), *options, *drop]) == 0
    assert "400 rows, 4 features in 4 blocks" in capsys.readouterr().out
    for k in range(2):
        file = tables / "rows" / f"{k}.csv"
        pd.read_csv(file).drop(columns=["x1", "x4"]).to_csv(file, index=False)
    assert main(["margins", str(tables / "rows"), *options, "--out", str(tables / "b")]) == 0
    for name in ("path.csv", "coefficients.csv"):
        found, wanted = (pd.read_csv(tables / folder / name) for folder in "ab")
        pd.testing.assert_frame_equal(found, wanted, rtol=1e-9)
    capsys.readouterr()
    assert main(["margins", str(tables / "rows"), *options, *drop, "--overwrite"]) == 2
    assert "--drop" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["margins", "statistics"])
def test_arguments_that_commands_share_have_their_help(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([command, "--help"])
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for words in (
        "a TOML file with a table [views]",
        "Column of sample weights.",
        "0 for none",
        "row or file",
    ):
        assert words in said


def test_what_is_refused(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, out = str(tables / "rows"), str(tables / "out")
    for args, said in (
        ([rows, "--out", out], "--target must name"),
        (["--target", "y", "--out", out], "Name a folder"),
        ([rows, "--target", "y", "--out", out, "--loss", "cubed"], "loss"),
        ([rows, "--target", "y", "--out", out, "--folds", "1"], "--folds 0 or at least 2"),
        ([rows, "--target", "x0", "--out", out], "labels -1 and"),
    ):
        assert main(["margins", *args]) == 2
        assert said in capsys.readouterr().err
    assert main(["margins", rows, "--target", "x0", "--loss", "epsilon-insensitive", "--folds", "0",
                 "--cs", "0.001", "--out", out]) == 0  # fmt: skip


class Seen(Exception):
    """The library was called."""


def asked_of_a_path(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> dict[str, Any]:
    """What the command `margins` asks the library for."""
    seen: dict[str, Any] = {}

    def solve(name: str, *arguments: Any, **given: Any) -> None:
        seen.update(given, function=name, features=arguments[0], Cs=list(arguments[-1]))
        raise Seen

    with monkeypatch.context() as patch:
        for place in ("rows.validation.svm_mkl_path_cv", "mkl.path.svm_mkl_path"):
            patch.setattr(f"kernelweave.{place}", partial(solve, place.rpartition(".")[2]))
        with pytest.raises(Seen):
            main(["margins", *command])
    return seen


def test_every_option_of_a_path_reaches_the_library(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in (tables / "rows").iterdir():
        pd.read_csv(file).assign(w=2.0).to_csv(file, index=False)
    given = [str(tables / "rows"), "--target", "y", "--drop", "w", "--out", str(tables / "out")]
    usual = asked_of_a_path(monkeypatch, given)
    features, scale = usual.pop("features"), usual.pop("scale")
    assert features.n_samples == 400
    np.testing.assert_allclose(scale, features.scales())
    np.testing.assert_allclose(usual.pop("Cs"), np.geomspace(0.1, 1000.0, 10) / 400)
    assert usual == {
        "function": "svm_mkl_path_cv", "loss": "hinge", "epsilon": 0.1, "tol": 1e-3, "folds": 5,
        "fold_by": "row", "scoring": "auto", "rule": "min", "seed": 0,
    }  # fmt: skip
    machine = {"loss": "epsilon-insensitive", "epsilon": 0.25, "tol": 1e-4}
    choice = {"folds": 2, "fold_by": "file", "scoring": "loss", "rule": "1se", "seed": 7}
    for options in (machine | choice, machine | {"folds": 0}):
        more = [part for name, v in options.items() for part in (f"--{name.replace('_', '-')}", str(v))]
        rows = [*given[:3], "--weight", "w", "--groups", "0,2,6", *given[5:], "--normalize", "none"]
        found = asked_of_a_path(monkeypatch, [*rows, "--points", "3", *more])
        features = found.pop("features")
        assert (features.n_kernels, features.n_features) == (2, 6)
        np.testing.assert_allclose(found.pop("Cs"), np.geomspace(0.1, 1000.0, 3) / 800)
        plain = machine | {"function": "svm_mkl_path"}
        assert found == (plain if not options["folds"] else plain | choice | {"function": "svm_mkl_path_cv"})

"""The papers' printed numbers beside ours: none missing, verdicts at their borders, commands that exist.

Modules: `printed`, `scoreboard`, `sizes`.
"""

import json
import math
import shutil
from pathlib import Path

import pytest

import kernelweave_papers as experiments
from experiment_cells import need
from kernelweave import InputError
from kernelweave_papers import printed
from kernelweave_papers.printed import DASH, LOST, Printed
from kernelweave_papers.scoreboard import (
    DIFFERS,
    EQUAL,
    LOST_REASON,
    MISSING,
    REASONS,
    SEARCHED,
    SOURCES,
    VERDICTS,
    WITHIN,
    counts,
    headline,
    other_settings,
    scoreboard,
    summary,
    under,
    verdict,
)

pd = pytest.importorskip("pandas")
DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.fixture(scope="module")
def board():
    if not (DOCS / "results").is_dir():
        pytest.skip("the documentation's tables are not here")
    return scoreboard(DOCS / "results")


# ---- the printed numbers --------------------------------------------------------------------------


def numbers(table):
    return [one for row in table.values() for one in row.values()]


def test_every_printed_cell_is_there():
    """Rows and columns of the papers' tables, and how many numbers our texts lack."""
    sizes = {(s.paper, s.table): len(numbers(s.cells)) for s in SOURCES}
    assert sizes == {
        ("RLS2", "Table 1"): 11 * 7,
        ("RLS2", "Table 2"): 10 * 4,
        ("RLS2", "Table 3"): 10 * 2,
        ("RLS2", "Table 4"): 10 * 2 * 3,
        ("RLS2", "Table 5"): 6 * 2,
        ("RKL", "Table 1, accuracy"): 11 * 8,
        ("RKL", "Table 1, kernels"): 11 * 8,
        ("MLMKL", "Table 1"): 12 * 3,
        ("MLMKL", "Tables 2 and 3"): 12 * 10,
        ("MLMKL", "Average ranks"): 4 + 7,
    }
    lost = {(s.paper, s.table): sum(one.lost for one in numbers(s.cells)) for s in SOURCES}
    assert {key: n for key, n in lost.items() if n} == {("RLS2", "Table 3"): 19, ("RLS2", "Table 4"): 60}
    assert sum(one.text == DASH for one in numbers(printed.RLS2_TABLE1)) == 3 + 6 + 4


def test_kernels_of_table_2_are_a_function_of_the_columns():
    """13 (N + 1) kernels; the halves of the other paper differ by one row at most."""
    assert all(row["kernels"].value % 13 == 0 for row in printed.RLS2_TABLE2.values())
    for row in printed.MLMKL_TABLE1.values():
        assert abs(row["training rows"].value - row["test rows"].value) <= 1


def test_counts_of_data_sets_are_those_of_the_stored_table(board):
    need("heart", "servo", "credit", "liver")
    one = experiments.get("sizes")
    options = one.defaults.with_values(datasets=("heart", "servo", "credit", "liver"))
    found = one.tables([(cell, one.run(cell, options)) for cell in one.cells(options)], options)["results"]
    stored = pd.read_csv(DOCS / "results" / "sizes" / "results.csv").set_index(["paper", "dataset"])
    pd.testing.assert_frame_equal(
        found.set_index(["paper", "dataset"]).astype(float),
        stored.loc[list(zip(found["paper"], found["dataset"], strict=True))].astype(float),
    )


# ---- verdicts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "ours", "expected"),
    [
        (Printed("94.0", "1.4", 1), 94.05, EQUAL),
        (Printed("94.0", "1.4", 1), 93.95, EQUAL),
        (Printed("94.0", "1.4", 1), 94.0501, WITHIN),
        (Printed("94.0", "1.4", 1), 95.4, WITHIN),
        (Printed("94.0", "1.4", 1), 92.6, WITHIN),
        (Printed("94.0", "1.4", 1), 95.4001, DIFFERS),
        (Printed("94.0", "1.4", 1), 92.5999, DIFFERS),
        # a spread of zero allows what rounds to the printed number, and no more
        (Printed("100", "0.0", 1), 99.95, EQUAL),
        (Printed("100", "0.0", 1), 99.9, DIFFERS),
        # no spread: equal or not
        (Printed("20"), 20.0, EQUAL),
        (Printed("20"), 20.6, DIFFERS),
        (Printed("3.8", digits=1), 3.6, DIFFERS),
        # the mean was printed as 84, with a spread of two decimals
        (Printed("84", "3.28", 2), 84.4, WITHIN),
        (Printed(DASH, digits=3), 0.0, EQUAL),
        (Printed(DASH, digits=3), 0.001, DIFFERS),
        (Printed("-0.141", digits=3), -0.1415, EQUAL),
        (Printed("-0.141", digits=3), 0.141, DIFFERS),
        (Printed(LOST), 84.0, MISSING),
        (Printed("84", "3.28", 2), math.nan, MISSING),
    ],
)
def test_verdicts_at_their_borders(one, ours, expected):
    assert verdict(one, ours) == expected


def test_no_cell_is_without_verdict_reason_and_command(board):
    assert set(board["verdict"]) <= set(VERDICTS)
    first = board[board["first"]]
    keys = ["paper", "table", "row", "column"]
    assert not first.duplicated(keys).any()
    assert len(first) == sum(len(numbers(s.cells)) for s in SOURCES)
    needs = first["verdict"].isin([DIFFERS, MISSING])
    assert (first["reason"] != "").equals(needs)
    assert (first["reason"] == LOST_REASON).sum() == 79
    assert (board["command"] != "").all()
    # the verdict again, from the numbers of the board
    scores = first[first["printed_std"].notna() & first["ours"].notna()]
    away = (scores["ours"] - scores["printed"].astype(float)).abs() <= scores["printed_std"]
    good = scores["verdict"].isin([EQUAL, WITHIN])
    assert (away <= good).all()
    # a printed spread of zero, and ours the same after rounding
    assert (scores.loc[good & ~away, "printed_std"] == 0).all()


def test_reasons_are_about_cells_that_exist():
    cells = {(s.paper, s.table): s.cells for s in SOURCES}
    for key, reasons in REASONS.items():
        columns = {column for row in cells[key].values() for column in row}
        for own, rows, text in reasons:
            assert set(own) <= columns
            assert set(rows) <= set(cells[key])
            assert text


def test_commands_exist(board):
    from kernelweave_app.cli.papers import Changes

    for command in dict.fromkeys(board["command"]):
        program, verb, name, *rest = command.split()
        assert (program, verb) == ("kernelweave", "reproduce")
        options = experiments.get(name).defaults
        if rest:
            option, *names = rest
            if option == "--data":
                assert experiments.get(name).with_data
                continue
            assert option == "--datasets"
            assert hasattr(Changes, "datasets")
            assert options.with_values(datasets=tuple(names)).datasets == tuple(names)


def test_shares_count_each_cell_once(board):
    by_table = summary(board, "paper", "table")
    by_column = summary(board, "paper", "table", "column")
    for key in ("cells", "compared", *VERDICTS):
        assert by_table[key].sum() == by_column[key].sum() == counts(board[board["first"]])[key]
    found = headline(board)
    for paper, (good, scores, equal, others) in found.items():
        rows = by_table[by_table["paper"] == paper]
        assert scores + others == rows["compared"].sum()
        assert good + equal == rows[EQUAL].sum() + rows[WITHIN].sum()


def test_another_reading_replaces_only_the_cells_that_have_it(board):
    for reading in ("radius of K", SEARCHED, "step by test accuracy", "raw intensities", "70/30"):
        other = under(board, reading)
        assert other["first"].sum() == board["first"].sum()
        moved = other[other["first"] & ~board["first"]]
        assert len(moved)
        assert moved["reading"].str.contains(reading, regex=False).all()
    rank = under(board, "step by test accuracy").query("first and table == 'Average ranks'")
    assert set(rank["reading"]) == {"step by test accuracy"}


# ---- the command ----------------------------------------------------------------------------------


def test_command_reads_runs_and_says_what_is_missing(tmp_path, capsys, board):
    pytest.importorskip("cyclopts")
    from kernelweave_app.cli import main

    tables = tmp_path / "kernelweave-rls2-prostate" / "tables"
    shutil.copytree(DOCS / "results" / "rls2-prostate", tables)
    out = tmp_path / "cells.csv"
    assert main(["scoreboard", str(tmp_path), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "RLS2: 7 of 7 scores within one printed standard deviation; 70 of 70 other numbers equal." in said
    assert "RKL: 0 of 0 scores" in said
    assert len(out.read_text().splitlines()) > 500
    assert main(["scoreboard", str(tmp_path / "nothing")]) == 2
    assert "Run an experiment first" in capsys.readouterr().err
    with pytest.raises(InputError, match="expected folders such as kernelweave-rkl"):
        scoreboard(tmp_path / "nothing")


def test_runs_with_other_settings_are_named(tmp_path):
    folder = tmp_path / "kernelweave-rkl"
    folder.mkdir()
    settings = experiments.get("rkl").defaults.as_dict()
    for folds, found in ((2, {"rkl": {"folds": 2}}), (settings["folds"], {})):
        (folder / "run.json").write_text(json.dumps({"settings": settings | {"folds": folds, "seed": 7}}))
        assert other_settings(tmp_path) == found
